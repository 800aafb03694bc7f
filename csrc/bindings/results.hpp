// Results as NumPy arrays. They are allocated with the GIL held and filled without it.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <idcwh/search.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace idcwh::bindings {

namespace py = pybind11;

// Distances and ids of nq queries, `columns` per query.
class Ranked {
public:
    Ranked(std::size_t nq, std::size_t columns)
        : columns(columns),
          distances_({nq, columns}),
          ids_({nq, columns}),
          distance_data_(distances_.mutable_data()),
          id_data_(ids_.mutable_data()) {}

    const std::size_t columns;
    std::int32_t* distances() const { return distance_data_; }
    std::int64_t* ids() const { return id_data_; }
    template <class Search>
    void fill(Search search) {
        const py::gil_scoped_release release;
        search();
    }
    py::tuple arrays() const { return py::make_tuple(distances_, ids_); }

private:
    py::array_t<std::int32_t> distances_;
    py::array_t<std::int64_t> ids_;
    std::int32_t* distance_data_;
    std::int64_t* id_data_;
};

// Moves a vector into a NumPy array without a copy.
template <class T>
py::array_t<T> to_array(std::vector<T>&& values) {
    auto owner = std::make_unique<std::vector<T>>(std::move(values));
    T* data = owner->data();
    const auto size = static_cast<py::ssize_t>(owner->size());
    py::capsule capsule(owner.get(), [](void* p) { delete static_cast<std::vector<T>*>(p); });
    owner.release();
    return py::array_t<T>(size, data, capsule);
}

// Runs a search that returns Hits. Returns (lims, D, I).
template <class Search>
py::tuple hits_arrays(Search search) {
    Hits hits;
    {
        const py::gil_scoped_release release;
        hits = search();
    }
    return py::make_tuple(to_array(std::move(hits.limits)), to_array(std::move(hits.distances)),
                          to_array(std::move(hits.ids)));
}

// Returns counts of this shape, which fill(data) writes.
template <class Fill>
py::array_t<std::int64_t> counts_array(std::vector<std::size_t> shape, Fill fill) {
    py::array_t<std::int64_t> counts(std::move(shape));
    auto* data = counts.mutable_data();
    const py::gil_scoped_release release;
    fill(data);
    return counts;
}

}  // namespace idcwh::bindings
