// Bindings of idcwh::Index and idcwh::Snapshot. _core.pyi documents the functions.
#include <idcwh/index.hpp>

#include <utility>
#include <variant>

#include "arrays.hpp"
#include "bind.hpp"
#include "interrupt.hpp"
#include "optimize.hpp"
#include "results.hpp"

namespace idcwh::bindings {
namespace {

// The common arguments of searches of a snapshot.
struct Query {
    const std::uint8_t* data;
    std::size_t nq;
    QueryOptions options;
    Ctrl_C ctrl_c;

    Query(const Snapshot& snapshot, const py::object& queries, const py::object& where, const py::object& threads,
          const py::object& exclude)
        : data(codes_of(queries, "queries", snapshot.bits(), nq)) {
        options.where = where_of(where);
        if (!exclude.is_none()) exclude_from(exclude);
        options.threads = threads_of(threads);
        options.interrupt = ctrl_c.interrupt();
    }

private:
    void exclude_from(const py::object& ids) {
        const auto rows = static_cast<py::ssize_t>(nq);
        const bool table = py::isinstance<py::array>(ids) && py::reinterpret_borrow<py::array>(ids).ndim() == 2;
        const auto columns = table ? py::reinterpret_borrow<py::array>(ids).shape(1) : 1;
        const auto expected = [&] {
            return "C-contiguous int64 of shape (" + std::to_string(nq) + ", m), m ids per query";
        };
        options.exclude = data_of<std::int64_t>(ids, "exclude", expected, rows, columns);
        options.exclude_count = static_cast<std::size_t>(columns);
    }
};

py::tuple topk(const Snapshot& self, const py::object& queries, const py::object& k, const py::object& where,
               const py::object& threads, const py::object& exclude) {
    const Query in(self, queries, where, threads, exclude);
    const auto wanted = size_of(k, "k");
    Ranked out(in.nq, std::min(wanted, self.eligible(in.options.where)));
    out.fill([&] { self.topk(in.data, in.nq, out.columns, out.distances(), out.ids(), in.options); });
    return out.arrays();
}

py::tuple rank(const Snapshot& self, const py::object& queries, const py::object& where, const py::object& threads,
               const py::object& exclude) {
    const Query in(self, queries, where, threads, exclude);
    Ranked out(in.nq, self.eligible(in.options.where));
    out.fill([&] { self.rank(in.data, in.nq, out.distances(), out.ids(), in.options); });
    return out.arrays();
}

py::tuple topk_ties(const Snapshot& self, const py::object& queries, const py::object& k, const py::object& where,
                    const py::object& threads, const py::object& exclude) {
    const Query in(self, queries, where, threads, exclude);
    const auto wanted = size_of(k, "k");
    return hits_arrays([&] { return self.topk_ties(in.data, in.nq, wanted, in.options); });
}

unsigned radius_of(const py::object& value, unsigned bits) {
    const auto within = whole_of(value, "radius", 0, std::numeric_limits<long long>::max());
    return static_cast<unsigned>(std::min<long long>(within, bits));
}

py::tuple radius(const Snapshot& self, const py::object& queries, const py::object& radius, const py::object& where,
                 const py::object& threads, const py::object& exclude) {
    const Query in(self, queries, where, threads, exclude);
    const unsigned within = radius_of(radius, self.bits());
    return hits_arrays([&] { return self.radius(in.data, in.nq, within, in.options); });
}

py::array_t<std::int64_t> count(const Snapshot& self, const py::object& queries, const py::object& radius,
                                const py::object& where, const py::object& threads, const py::object& exclude) {
    const Query in(self, queries, where, threads, exclude);
    const unsigned within = radius_of(radius, self.bits());
    return counts_array({in.nq}, [&](std::int64_t* out) { self.count(in.data, in.nq, within, out, in.options); });
}

py::array_t<std::int64_t> histogram(const Snapshot& self, const py::object& queries, const py::object& where,
                                    const py::object& threads, const py::object& exclude) {
    const Query in(self, queries, where, threads, exclude);
    return counts_array({in.nq, self.bits() + std::size_t{1}},
                        [&](std::int64_t* out) { self.histogram(in.data, in.nq, out, in.options); });
}

const std::int64_t* ids_of(const py::object& ids, std::size_t& count) {
    const py::ssize_t size = py::isinstance<py::array>(ids) && py::reinterpret_borrow<py::array>(ids).ndim() == 1
                                 ? py::reinterpret_borrow<py::array>(ids).shape(0)
                                 : -1;
    const auto* data =
        data_of<std::int64_t>(ids, "ids", [] { return std::string("C-contiguous int64 of one dimension"); }, size);
    count = static_cast<std::size_t>(size);
    return data;
}

py::array_t<std::uint8_t> get(const Snapshot& self, const py::object& ids) {
    std::size_t count;
    const auto* data = ids_of(ids, count);
    py::array_t<std::uint8_t> out({count, code_bytes(self.bits())});
    self.get(data, count, out.mutable_data());
    return out;
}

py::tuple copy(const Snapshot& self, const py::object& where) {
    const Where selected = where_of(where);
    const std::size_t count = self.eligible(selected);
    py::array_t<std::uint8_t> codes({count, code_bytes(self.bits())});
    py::array_t<std::int64_t> ids(static_cast<py::ssize_t>(count));
    auto* code_data = codes.mutable_data();
    auto* id_data = ids.mutable_data();
    {
        const py::gil_scoped_release release;
        self.copy(code_data, id_data, selected);
    }
    return py::make_tuple(codes, ids);
}

py::array_t<std::int64_t> ids(const Snapshot& self) {
    py::array_t<std::int64_t> all(static_cast<py::ssize_t>(self.size()));
    auto* out = all.mutable_data();
    const py::gil_scoped_release release;
    self.copy(nullptr, out);
    return all;
}

py::dict path_dict(const Path& path) {
    py::dict entry;
    entry["path"] = path.name;
    entry["nanoseconds"] = path.nanoseconds;
    entry["because"] = path.because;
    return entry;
}

py::list explain(const Snapshot& self, const py::object& k, const py::object& radius, const py::object& nq,
                 const py::object& where) {
    const auto queries = size_of(nq, "queries");
    const auto explanation = k.is_none() ? self.explain_radius(radius_of(radius, self.bits()), queries, where_of(where))
                                         : self.explain_topk(size_of(k, "k"), queries, where_of(where));
    py::list list;
    list.append(path_dict(explanation.chosen));
    for (const Path& path : explanation.others) list.append(path_dict(path));
    return list;
}

py::list structures(const Snapshot& self) {
    py::list list;
    for (const StructureInfo& info : self.structures()) {
        py::dict entry;
        entry["name"] = info.name;
        entry["codes"] = info.codes;
        entry["bytes"] = info.bytes;
        entry["detail"] = info.detail;
        list.append(entry);
    }
    return list;
}

py::array_t<std::int64_t> add(Index& self, const py::object& codes, const py::object& ids) {
    std::size_t n;
    const auto* data = codes_of(codes, "codes", self.bits(), n);
    const auto expected = [n] { return "C-contiguous int64 of shape (" + std::to_string(n) + ",), one per code"; };
    const auto* id_data =
        ids.is_none() ? nullptr : data_of<std::int64_t>(ids, "ids", expected, static_cast<py::ssize_t>(n));
    py::array_t<std::int64_t> assigned(static_cast<py::ssize_t>(n));
    auto* out = assigned.mutable_data();
    {
        const py::gil_scoped_release release;
        self.add(data, n, id_data, out);
    }
    return assigned;
}

std::size_t remove(Index& self, const py::object& ids) {
    std::size_t count;
    const auto* data = ids_of(ids, count);
    const py::gil_scoped_release release;
    return self.remove(data, count);
}

void reserve(Index& self, const py::object& size) {
    const auto rows = size_of(size, "size");
    const py::gil_scoped_release release;
    self.reserve(rows);
}

}  // namespace

void bind_index(py::module_& m) {
    using py::arg;
    const auto none = py::none();
    const auto released = py::call_guard<py::gil_scoped_release>();
    py::class_<Snapshot>(m, "Snapshot")
        .def_property_readonly("bits", &Snapshot::bits)
        .def("__len__", &Snapshot::size)
        .def("topk", topk, arg("queries"), arg("k"), arg("where") = none, arg("threads") = 0, arg("exclude") = none)
        .def("topk_ties", topk_ties, arg("queries"), arg("k"), arg("where") = none, arg("threads") = 0,
             arg("exclude") = none)
        .def("radius", radius, arg("queries"), arg("radius"), arg("where") = none, arg("threads") = 0,
             arg("exclude") = none)
        .def("count", count, arg("queries"), arg("radius"), arg("where") = none, arg("threads") = 0,
             arg("exclude") = none)
        .def("histogram", histogram, arg("queries"), arg("where") = none, arg("threads") = 0, arg("exclude") = none)
        .def("rank", rank, arg("queries"), arg("where") = none, arg("threads") = 0, arg("exclude") = none)
        .def("get", get, arg("ids"))
        .def("copy", copy, arg("where") = none)
        .def("ids", ids)
        .def("explain", explain, arg("k") = none, arg("radius") = none, arg("queries") = 1, arg("where") = none)
        .def("structures", structures)
        .def("memory", &Snapshot::memory);
    py::class_<Index>(m, "Index")
        .def(py::init([](const py::object& bits) { return Index(bits_of(bits)); }), arg("bits"))
        .def("snapshot", &Index::snapshot)
        .def("add", add, arg("codes"), arg("ids") = none)
        .def("remove", remove, arg("ids"))
        .def("reserve", reserve, arg("size"))
        .def("optimize", optimize<Index>, arg("memory") = none, arg("threads") = 0)
        .def("drop_structures", &Index::drop_structures, released)
        .def(
            "set_threads", [](Index& self, const py::object& threads) { self.set_threads(threads_of(threads)); },
            arg("threads"));
}

}  // namespace idcwh::bindings
