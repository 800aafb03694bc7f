// Bindings of metrics.hpp. _core.pyi documents the functions.
#include <idcwh/metrics.hpp>

#include <utility>
#include <vector>

#include "arrays.hpp"
#include "bind.hpp"
#include "interrupt.hpp"
#include "results.hpp"

namespace idcwh::bindings {
namespace {

LabelledCodes labelled_of(const py::object& codes, const py::object& labels, const py::object& classes, unsigned bits,
                          const char* codes_name, const char* labels_name) {
    LabelledCodes side;
    side.codes.bits = bits;
    side.codes.data = codes_of(codes, codes_name, bits, side.codes.size);
    const auto rows = static_cast<py::ssize_t>(side.codes.size);
    if (classes.is_none()) {
        const auto expected = [rows] { return "C-contiguous int64 of shape (" + std::to_string(rows) + ",)"; };
        side.labels = Labels::of_classes(data_of<std::int64_t>(labels, labels_name, expected, rows));
        return side;
    }
    const auto count = static_cast<std::size_t>(whole_of(classes, "classes", 0, std::numeric_limits<int>::max()));
    const auto bytes = static_cast<py::ssize_t>((count + 7) / 8);
    const auto expected = [&] {
        return "C-contiguous uint8 of shape (" + std::to_string(rows) + ", " + std::to_string(bytes) + ") for " +
               std::to_string(count) + " classes";
    };
    side.labels = Labels::of_sets(data_of<std::uint8_t>(labels, labels_name, expected, rows, bytes), count);
    return side;
}

template <class T>
py::array table(std::vector<T>&& values, std::size_t rows, std::size_t columns) {
    return to_array(std::move(values)).reshape({static_cast<py::ssize_t>(rows), static_cast<py::ssize_t>(columns)});
}

py::tuple count_pairs_array(const py::object& queries, const py::object& query_labels, const py::object& database,
                            const py::object& database_labels, const py::object& bits_in, const py::object& classes,
                            const py::object& cuts_in, bool ranked, bool leave_one_out, const py::object& threads) {
    const unsigned bits = bits_of(bits_in);
    const auto one = labelled_of(queries, query_labels, classes, bits, "queries", "query_labels");
    const auto other = labelled_of(database, database_labels, classes, bits, "database", "database_labels");
    std::vector<std::size_t> cuts;
    for (const auto& cut : cuts_in) cuts.push_back(size_of(py::reinterpret_borrow<py::object>(cut), "cuts", 1));
    const Ctrl_C ctrl_c;
    PairOptions options;
    options.ranked = ranked;
    options.leave_one_out = leave_one_out;
    options.cuts = cuts.data();
    options.cut_count = cuts.size();
    options.threads = threads_of(threads);
    options.interrupt = ctrl_c.interrupt();
    PairCounts counts;
    {
        const py::gil_scoped_release release;
        counts = count_pairs(one, other, options);
    }
    const std::size_t rows = counts.items.size() / (bits + 1);
    const std::size_t ranked_rows = !ranked ? 0 : leave_one_out ? one.codes.size : rows;
    return py::make_tuple(to_array(std::move(counts.row)), table(std::move(counts.items), rows, bits + 1),
                          table(std::move(counts.relevant), rows, bits + 1),
                          table(std::move(counts.ranked_sum), ranked_rows, cuts.size() + 1),
                          table(std::move(counts.ranked_hits), ranked_rows, cuts.size()));
}

std::size_t count_distinct_array(const py::object& codes, const py::object& bits) {
    Codes view;
    view.bits = bits_of(bits);
    view.data = codes_of(codes, "codes", view.bits, view.size);
    const py::gil_scoped_release release;
    return count_distinct(view);
}

py::array bit_pairs_array(const py::object& codes, const py::object& bits, const py::object& threads) {
    Codes view;
    view.bits = bits_of(bits);
    view.data = codes_of(codes, "codes", view.bits, view.size);
    const auto most = threads_of(threads);
    const Ctrl_C ctrl_c;
    return counts_array({view.bits, view.bits},
                        [&](std::int64_t* counts) { bit_pairs(view, counts, most, ctrl_c.interrupt()); });
}

}  // namespace

void bind_metrics(py::module_& m) {
    using py::arg;
    m.def("count_pairs", count_pairs_array, arg("queries"), arg("query_labels"), arg("database"),
          arg("database_labels"), arg("bits"), arg("classes") = py::none(), arg("cuts") = py::tuple(),
          arg("ranked") = true, arg("leave_one_out") = false, arg("threads") = 0,
          "Returns (row, items, relevant, ranked_sum, ranked_hits), counts of all pairs by distance.");
    m.def("count_distinct", count_distinct_array, arg("codes"), arg("bits"), "Returns the number of distinct codes.");
    m.def("bit_pairs", bit_pairs_array, arg("codes"), arg("bits"), arg("threads") = 0,
          "Returns the numbers of codes in which two bits are both set, [bits, bits].");
}

}  // namespace idcwh::bindings
