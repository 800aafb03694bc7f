// Checked conversion of Python arguments. NumPy arrays must have the expected type, shape and layout. They are used in
// place, never cast or copied.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <idcwh/index.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "interrupt.hpp"
#include "scan/rows.hpp"

namespace idcwh::bindings {

namespace py = pybind11;

// Returns the type of a value and, for an array, its shape and layout, for error messages.
inline std::string describe(const py::handle& value) {
    if (!py::isinstance<py::array>(value)) return py::str(py::type::handle_of(value).attr("__name__"));
    const auto array = py::reinterpret_borrow<py::array>(value);
    std::string text = py::str(array.dtype());
    text += " of shape " + std::string(py::str(array.attr("shape")));
    if (!(array.flags() & py::array::c_style)) text += ", not C-contiguous";
    return text;
}

// Returns the data of a C-contiguous array of T. Raises ValueError for another shape or layout, TypeError for another
// type. expected() returns a description of the array. It is called only for an error, because a search of few codes
// takes microseconds.
template <class T, class Expected>
const T* data_of(const py::object& value, const char* name, Expected expected, py::ssize_t rows,
                 py::ssize_t columns = -1) {
    const auto message = [&] { return std::string(name) + " must be " + expected() + ", not " + describe(value); };
    if (!py::isinstance<py::array>(value)) throw py::type_error(message());
    const auto array = py::reinterpret_borrow<py::array>(value);
    const py::dtype type = array.dtype();
    const bool mask = std::is_same_v<T, std::uint8_t> && columns < 0;  // a mask may also be bool
    if (type.num() != py::dtype::num_of<T>() && !type.equal(py::dtype::of<T>()) && !(mask && type.kind() == 'b'))
        throw py::type_error(message());
    const bool shape = columns < 0
                           ? array.ndim() == 1 && array.shape(0) == rows
                           : array.ndim() == 2 && array.shape(1) == columns && (rows < 0 || array.shape(0) == rows);
    if (!shape || !(array.flags() & py::array::c_style)) throw py::value_error(message());
    if (reinterpret_cast<std::uintptr_t>(array.data()) % alignof(T))
        throw py::value_error(std::string(name) + " must be aligned to " + std::to_string(alignof(T)) + " bytes");
    return static_cast<const T*>(array.data());
}

// Returns a whole number in [least, most]. Raises TypeError for bool and float. Without an upper bound, larger numbers
// become the largest long long, which no number of codes or bytes reaches.
inline long long whole_of(const py::object& value, const char* name, long long least, long long most) {
    if (py::isinstance<py::bool_>(value) || !PyIndex_Check(value.ptr()))
        throw py::type_error(std::string(name) + " must be a whole number, not " + std::string(py::repr(value)));
    const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
    if (!index) throw py::error_already_set();
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    if (number == -1 && PyErr_Occurred()) throw py::error_already_set();
    const bool open = most == std::numeric_limits<long long>::max();
    if (open && overflow > 0) return most;
    if (overflow || number < least || number > most) {
        throw py::value_error(
            std::string(name) + " must be " +
            (open ? "at least " + std::to_string(least) : std::to_string(least) + " to " + std::to_string(most)) +
            ", not " + std::string(py::str(index)));
    }
    return number;
}

// Returns a size of at least `least`, such as a number of rows or bytes. Sizes that memory cannot address become the
// largest std::size_t.
inline std::size_t size_of(const py::object& value, const char* name, long long least = 0) {
    const auto number =
        static_cast<unsigned long long>(whole_of(value, name, least, std::numeric_limits<long long>::max()));
    return static_cast<std::size_t>(std::min<unsigned long long>(number, std::numeric_limits<std::size_t>::max()));
}

// Returns the number of threads of a search. None yields 0, the default of the engine.
inline unsigned threads_of(const py::object& threads) {
    return threads.is_none() ? 0 : static_cast<unsigned>(whole_of(threads, "threads", 0, max_threads));
}

inline unsigned bits_of(const py::object& bits) { return static_cast<unsigned>(whole_of(bits, "bits", 1, max_bits)); }

inline const std::uint8_t* codes_of(const py::object& value, const char* name, unsigned bits, std::size_t& rows) {
    const auto bytes = static_cast<py::ssize_t>(code_bytes(bits));
    const auto expected = [&] {
        return "C-contiguous uint8 of shape (n, " + std::to_string(bytes) + ") for " + std::to_string(bits) + " bits";
    };
    const auto* data = data_of<std::uint8_t>(value, name, expected, -1, bytes);
    rows = static_cast<std::size_t>(py::reinterpret_borrow<py::array>(value).shape(0));
    return data;
}

// Converts the rows of a search: None, (begin, end), ascending int64 row numbers, or one bool or uint8 per code. The
// last two are stored in `bitmap`, which must outlive the result.
inline Rows rows_of(const py::object& value, std::size_t size, std::vector<std::uint64_t>& bitmap) {
    if (value.is_none()) return Rows::all();
    const auto fail = [&](const std::string& what) -> Rows {
        throw py::type_error(
            "rows must be None, one bool or uint8 per code, ascending int64 row numbers, or a tuple "
            "(begin, end), not " +
            what);
    };
    if (py::isinstance<py::tuple>(value)) {
        const auto pair = py::reinterpret_borrow<py::tuple>(value);
        if (pair.size() != 2) return fail("a tuple of " + std::to_string(pair.size()));
        return Rows::range(size_of(pair[0], "rows[0]"), size_of(pair[1], "rows[1]"));
    }
    if (!py::isinstance<py::array>(value)) return fail(describe(value));
    const auto array = py::reinterpret_borrow<py::array>(value);
    if (array.dtype().kind() == 'i' && array.itemsize() == 8) {
        const auto expected = [] { return std::string("C-contiguous int64 of one dimension, row numbers"); };
        const auto count = array.ndim() == 1 ? array.shape(0) : 0;
        return Rows::of_list(data_of<std::int64_t>(value, "rows", expected, count), static_cast<std::size_t>(count));
    }
    if (array.itemsize() != 1 || (array.dtype().kind() != 'b' && array.dtype().kind() != 'u'))
        return fail(describe(value));
    const auto expected = [size] {
        return "C-contiguous bool or uint8 of shape (" + std::to_string(size) + ",), one per code";
    };
    const auto* bytes = data_of<std::uint8_t>(value, "rows", expected, static_cast<py::ssize_t>(size));
    bitmap.resize((size + 63) / 64);
    const py::gil_scoped_release release;
    pack_bytes(bytes, size, bitmap.data());
    return Rows::of_bitmap(bitmap.data());
}

// Converts the argument `where`: None, ids (int64), a pair (first, last) of ids, or a mask (bool).
inline Where where_of(const py::object& value) {
    if (value.is_none()) return Where::all();
    if (py::isinstance<py::tuple>(value)) {
        const auto pair = py::reinterpret_borrow<py::tuple>(value);
        constexpr auto most = std::numeric_limits<long long>::max();
        if (pair.size() != 2)
            throw py::value_error("where must be a pair (first, last) of ids, not a tuple of " +
                                  std::to_string(pair.size()));
        return Where::id_range(whole_of(pair[0], "where", -most - 1, most),
                               whole_of(pair[1], "where", -most - 1, most));
    }
    if (!py::isinstance<py::array>(value))
        throw py::type_error("where must be None, an array or a pair of ids, not " + describe(value));
    const auto array = py::reinterpret_borrow<py::array>(value);
    const auto expected = [] { return std::string("C-contiguous bool or int64 of one dimension"); };
    const py::ssize_t size = array.ndim() == 1 ? array.shape(0) : -1;
    if (array.dtype().kind() == 'b')
        return Where::of_bytes(data_of<std::uint8_t>(value, "where", expected, size), static_cast<std::size_t>(size));
    return Where::of_ids(data_of<std::int64_t>(value, "where", expected, size), static_cast<std::size_t>(size));
}

// The common arguments of all searches.
class Arguments {
public:
    Codes codes;
    const std::uint8_t* queries;
    std::size_t nq;
    SearchOptions options;

    Arguments(const py::object& codes_in, const py::object& bits, const py::object& queries_in, const py::object& ids,
              const py::object& rows, const py::object& threads) {
        codes.bits = bits_of(bits);
        codes.data = codes_of(codes_in, "codes", codes.bits, codes.size);
        queries = codes_of(queries_in, "queries", codes.bits, nq);
        const auto expected = [this] {
            return "C-contiguous int64 of shape (" + std::to_string(codes.size) + ",), one per code";
        };
        if (!ids.is_none())
            options.ids = data_of<std::int64_t>(ids, "ids", expected, static_cast<py::ssize_t>(codes.size));
        options.rows = rows_of(rows, codes.size, bitmap_);
        options.threads = threads_of(threads);
        options.interrupt = ctrl_c_.interrupt();
    }
    Arguments(const Arguments&) = delete;
    Arguments& operator=(const Arguments&) = delete;

private:
    std::vector<std::uint64_t> bitmap_;
    Ctrl_C ctrl_c_;
};

}  // namespace idcwh::bindings
