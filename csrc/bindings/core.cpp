// The module idcwh_search._core: the C++ engine for NumPy. It only converts arguments, results and errors. _core.pyi
// documents the functions.
#include <idcwh/crc32c.hpp>
#include <idcwh/isa.hpp>
#include <idcwh/search.hpp>
#include <idcwh/threads.hpp>

#include <memory>
#include <system_error>
#include <utility>

#include "arrays.hpp"
#include "bind.hpp"
#include "results.hpp"

namespace idcwh::bindings {

namespace {

py::tuple topk_array(const py::object& codes, const py::object& bits, const py::object& queries, const py::object& k,
                     const py::object& ids, const py::object& rows, const py::object& threads) {
    const Arguments in(codes, bits, queries, ids, rows, threads);
    const auto wanted = size_of(k, "k");
    const std::size_t kept = std::min(wanted, eligible(in.codes, in.options));
    Ranked out(in.nq, kept);
    out.fill([&] { topk(in.codes, in.queries, in.nq, kept, out.distances(), out.ids(), in.options); });
    return out.arrays();
}

py::tuple topk_ties_array(const py::object& codes, const py::object& bits, const py::object& queries,
                          const py::object& k, const py::object& ids, const py::object& rows,
                          const py::object& threads) {
    const Arguments in(codes, bits, queries, ids, rows, threads);
    const auto wanted = size_of(k, "k");
    return hits_arrays([&] { return topk_ties(in.codes, in.queries, in.nq, wanted, in.options); });
}

unsigned radius_of(const py::object& radius, const Codes& codes) {
    const auto within = whole_of(radius, "radius", 0, std::numeric_limits<long long>::max());
    return static_cast<unsigned>(std::min<long long>(within, codes.bits));
}

py::tuple radius_array(const py::object& codes, const py::object& bits, const py::object& queries,
                       const py::object& within, const py::object& ids, const py::object& rows,
                       const py::object& threads) {
    const Arguments in(codes, bits, queries, ids, rows, threads);
    const unsigned limit = radius_of(within, in.codes);
    return hits_arrays([&] { return radius(in.codes, in.queries, in.nq, limit, in.options); });
}

py::array_t<std::int64_t> count_array(const py::object& codes, const py::object& bits, const py::object& queries,
                                      const py::object& within, const py::object& rows, const py::object& threads) {
    const Arguments in(codes, bits, queries, py::none(), rows, threads);
    const unsigned limit = radius_of(within, in.codes);
    return counts_array({in.nq},
                        [&](std::int64_t* counts) { count(in.codes, in.queries, in.nq, limit, counts, in.options); });
}

py::array_t<std::int64_t> histogram_array(const py::object& codes, const py::object& bits, const py::object& queries,
                                          const py::object& rows, const py::object& threads) {
    const Arguments in(codes, bits, queries, py::none(), rows, threads);
    return counts_array({in.nq, std::size_t{in.codes.bits} + 1},
                        [&](std::int64_t* counts) { histogram(in.codes, in.queries, in.nq, counts, in.options); });
}

py::tuple rank_array(const py::object& codes, const py::object& bits, const py::object& queries, const py::object& ids,
                     const py::object& rows, const py::object& threads) {
    const Arguments in(codes, bits, queries, ids, rows, threads);
    Ranked out(in.nq, eligible(in.codes, in.options));
    out.fill([&] { rank(in.codes, in.queries, in.nq, out.distances(), out.ids(), in.options); });
    return out.arrays();
}

py::list isa_dicts() {
    py::list list;
    for (const Isa& isa : isa_list()) {
        py::dict entry;
        entry["name"] = isa.name;
        entry["supported"] = isa.supported;
        entry["active"] = isa.active;
        list.append(entry);
    }
    return list;
}

bool padding_is_zero_array(const py::object& codes, const py::object& bits) {
    Codes view;
    view.bits = bits_of(bits);
    view.data = codes_of(codes, "codes", view.bits, view.size);
    const py::gil_scoped_release release;
    return padding_is_zero(view);
}

std::uint32_t crc32c_buffer(const py::object& buffer, const py::object& seed) {
    const auto start = static_cast<std::uint32_t>(whole_of(seed, "seed", 0, 0xffffffffLL));
    Py_buffer view;
    if (PyObject_GetBuffer(buffer.ptr(), &view, PyBUF_SIMPLE) != 0) throw py::error_already_set();
    std::uint32_t result;
    {
        const py::gil_scoped_release release;
        result = crc32c(view.buf, static_cast<std::size_t>(view.len), start);
    }
    PyBuffer_Release(&view);
    return result;
}

// Decodes a message like a file name, because it may contain one.
py::object text_of(const std::string& text) {
    return py::reinterpret_steal<py::object>(
        PyUnicode_DecodeFSDefaultAndSize(text.data(), static_cast<py::ssize_t>(text.size())));
}

// Sets the Python exception for the code of an error. Arguments raise ValueError or KeyError. Other codes raise a class
// of idcwh_search.errors, whose fields are the parts of the message.
void set_error(const Error& error) {
    const char* name = "IdcwhError";
    switch (error.code()) {
        case ErrorCode::invalid_argument: PyErr_SetObject(PyExc_ValueError, text_of(error.what()).ptr()); return;
        case ErrorCode::not_found: PyErr_SetObject(PyExc_KeyError, text_of(error.what()).ptr()); return;
        case ErrorCode::unsupported: name = "NotSupportedError"; break;
        case ErrorCode::corrupt: name = "CorruptFileError"; break;
        case ErrorCode::locked: name = "LockedError"; break;
        default: break;
    }
    const auto field = [](const std::string& text) { return text.empty() ? py::object(py::none()) : text_of(text); };
    using namespace py::literals;
    const py::object value =
        py::module_::import("idcwh_search.errors")
            .attr(name)(field(error.problem()), "path"_a = field(error.path()), "found"_a = field(error.found()),
                        "expected"_a = field(error.expected()), "hint"_a = field(error.hint()));
    PyErr_SetObject(py::type::handle_of(value).ptr(), value.ptr());
}

void translate(std::exception_ptr pointer) {
    try {
        if (pointer) std::rethrow_exception(pointer);
    } catch (const SystemError& error) {
        // OSError() returns the subclass of the errno, such as FileNotFoundError.
        const py::object value = py::reinterpret_borrow<py::object>(PyExc_OSError)(
            error.error_number(), std::generic_category().message(error.error_number()), text_of(error.path()));
        PyErr_SetObject(py::type::handle_of(value).ptr(), value.ptr());
    } catch (const Error& error) {
        if (error.code() == ErrorCode::interrupted && PyErr_Occurred())
            return;  // keeps the exception of the signal handler
        set_error(error);
    }
}

}  // namespace
}  // namespace idcwh::bindings

PYBIND11_MODULE(_core, m) {
    using namespace idcwh::bindings;
    using py::arg;
    m.doc() = "Exact Hamming search over packed codes, in C++.";
    py::register_local_exception_translator(translate);
    Ctrl_C::remember_main_thread();

    const auto none = py::none();
    m.def("topk", topk_array, arg("codes"), arg("bits"), arg("queries"), arg("k"), arg("ids") = none,
          arg("rows") = none, arg("threads") = 0,
          "Returns (D, I), the k nearest codes of each query, by (distance, id).");
    m.def("topk_ties", topk_ties_array, arg("codes"), arg("bits"), arg("queries"), arg("k"), arg("ids") = none,
          arg("rows") = none, arg("threads") = 0,
          "Returns (lims, D, I), the k nearest codes and all at the distance of the k-th, by (distance, id).");
    m.def("radius", radius_array, arg("codes"), arg("bits"), arg("queries"), arg("radius"), arg("ids") = none,
          arg("rows") = none, arg("threads") = 0,
          "Returns (lims, D, I), every code at a distance of at most radius, by (distance, id).");
    m.def("count", count_array, arg("codes"), arg("bits"), arg("queries"), arg("radius"), arg("rows") = none,
          arg("threads") = 0, "Returns the number of codes at a distance of at most radius of each query.");
    m.def("histogram", histogram_array, arg("codes"), arg("bits"), arg("queries"), arg("rows") = none,
          arg("threads") = 0, "Returns the number of codes at each distance of each query.");
    m.def("rank", rank_array, arg("codes"), arg("bits"), arg("queries"), arg("ids") = none, arg("rows") = none,
          arg("threads") = 0, "Returns (D, I), every code, by (distance, id).");
    m.def("isa", isa_dicts, "Returns the compiled instruction sets (name, supported, active), slowest first.");
    m.def("set_isa", &idcwh::isa_force, arg("name"),
          "Sets the instruction set of later searches; 'auto' selects the fastest supported one.");
    m.def("available_cores", &idcwh::available_cores,
          "Returns the number of cores that this process may use by its affinity mask and its CPU quota.");
    m.def("crc32c", crc32c_buffer, arg("buffer"), arg("seed") = 0, "Returns the CRC-32C of a contiguous buffer.");
    m.def("padding_is_zero", padding_is_zero_array, arg("codes"), arg("bits"),
          "Returns True if no row has a padding bit set.");
    bind_metrics(m);
    bind_index(m);
    bind_join(m);
    bind_database(m);
}
