// Joins and clusters for numpy: see _core.pyi.
#include <idcwh/join.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "arrays.hpp"
#include "bind.hpp"
#include "results.hpp"

namespace idcwh::bindings {
namespace {

unsigned within_of(const py::object& radius, unsigned bits) {
    return static_cast<unsigned>(whole_of(radius, "radius", 0, bits));
}

Codes codes_from(const py::object& value, const char* name, unsigned bits) {
    Codes codes;
    codes.bits = bits;
    codes.data = codes_of(value, name, bits, codes.size);
    return codes;
}

JoinOptions options_of(const py::object& threads, const Interrupt* interrupt) {
    JoinOptions options;
    options.threads = threads_of(threads);
    options.interrupt = interrupt;
    return options;
}

class Join {
public:
    Join(const py::object& a, const py::object& b, const py::object& bits, const py::object& radius,
         const py::object& max_pairs, const py::object& block, const py::object& threads) {
        const unsigned width = bits_of(bits), within = within_of(radius, width);
        const Codes first = codes_from(a, b.is_none() ? "codes" : "a", width);
        JoinOptions options = options_of(threads, ctrl_c_.interrupt_anywhere());
        options.block = size_of(block, "block", 1);
        if (!max_pairs.is_none()) options.max_pairs = size_of(max_pairs, "max_pairs");
        const bool self = b.is_none();
        const Codes second = self ? first : codes_from(b, "b", width);
        const py::gil_scoped_release release;
        stream_ = std::make_unique<PairStream>(self ? self_join(first, within, options)
                                                    : join(first, second, within, options));
    }

    py::tuple next() {
        Pairs block;
        bool more = false;
        {
            const Turn turn(*this);
            more = stream_ && stream_->next(block);
            if (!more) stream_.reset();  // frees its memory
        }
        if (!more) throw py::stop_iteration();
        return py::make_tuple(to_array(std::move(block.first)), to_array(std::move(block.second)),
                              to_array(std::move(block.distances)));
    }
    std::string explain() {
        const Turn turn(*this);
        return stream_ ? stream_->explain() : "";
    }

private:
    // Threads may share an iterator. They wait for each other without the interpreter's lock. A signal handler that
    // runs during next() must not wait for it.
    class Turn {
    public:
        explicit Turn(Join& join) : join_(check(join)), lock_(join.mutex_) {
            join_.thread_ = std::this_thread::get_id();
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        ~Turn() { join_.thread_ = std::thread::id(); }

    private:
        static Join& check(Join& join) {
            if (join.thread_.load() == std::this_thread::get_id())
                throw Error(ErrorCode::invalid_argument, "join: is already running on this thread");
            return join;
        }
        Join& join_;
        const py::gil_scoped_release release_;
        const std::lock_guard<std::mutex> lock_;
    };

    Ctrl_C ctrl_c_;
    std::mutex mutex_;
    std::atomic<std::thread::id> thread_{};  // that has locked the mutex
    std::unique_ptr<PairStream> stream_;
};

std::uint64_t join_count_arrays(const py::object& a, const py::object& b, const py::object& bits,
                                const py::object& radius, const py::object& threads) {
    const unsigned width = bits_of(bits), within = within_of(radius, width);
    const Codes first = codes_from(a, b.is_none() ? "codes" : "a", width);
    const Codes second = b.is_none() ? first : codes_from(b, "b", width);
    const bool self = b.is_none();
    const Ctrl_C ctrl_c;
    const JoinOptions options = options_of(threads, ctrl_c.interrupt());
    const py::gil_scoped_release release;
    return self ? count_pairs(first, within, options) : count_pairs(first, second, within, options);
}

py::array_t<std::int64_t> clusters_array(const py::object& codes, const py::object& bits, const py::object& radius,
                                         bool greedy, const py::object& threads) {
    const unsigned width = bits_of(bits), within = within_of(radius, width);
    const Codes view = codes_from(codes, "codes", width);
    const Ctrl_C ctrl_c;
    const JoinOptions options = options_of(threads, ctrl_c.interrupt());
    return counts_array({view.size}, [&](std::int64_t* out) {
        cluster(view, within, greedy ? ClusterMode::greedy : ClusterMode::components, out, options);
    });
}

}  // namespace

void bind_join(py::module_& m) {
    using py::arg;
    py::class_<Join>(m, "Join", "Iterator over blocks of pairs.")
        .def("__iter__", [](const py::object& self) { return self; })
        .def("__next__", &Join::next)
        .def("explain", &Join::explain, "Returns how the pairs are found, as text.");
    m.def(
        "join",
        [](const py::object& a, const py::object& b, const py::object& bits, const py::object& radius,
           const py::object& max_pairs, const py::object& block,
           const py::object& threads) { return std::make_unique<Join>(a, b, bits, radius, max_pairs, block, threads); },
        arg("a"), arg("b"), arg("bits"), arg("radius"), arg("max_pairs"), arg("block"), arg("threads"),
        "Returns the pairs within the radius, of two arrays of codes or, where b is None, of one.");
    m.def("join_count", join_count_arrays, arg("a"), arg("b"), arg("bits"), arg("radius"), arg("threads"),
          "Returns the number of pairs that join finds.");
    m.def("clusters", clusters_array, arg("codes"), arg("bits"), arg("radius"), arg("greedy"), arg("threads"),
          "Returns the cluster of each code.");
}

}  // namespace idcwh::bindings
