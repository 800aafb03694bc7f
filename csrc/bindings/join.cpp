// Joins and clusters for numpy: see _core.pyi.
#include <idcwh/join.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "arrays.hpp"
#include "base/huge_array.hpp"
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

// The memory of dropped blocks, for later ones: the first write to new pages takes longer than all others.
class Recycling {
public:
    HugeArray<std::uint8_t> take(std::size_t bytes) {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (auto& memory : spare_)
            if (memory.size() == bytes) return std::exchange(memory, {});
        return HugeArray<std::uint8_t>(bytes);
    }
    void give(HugeArray<std::uint8_t>&& memory) {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (auto& place : spare_)
            if (place.size() == 0 && !ended_) return void(place = std::move(memory));
    }
    void end() {
        const std::lock_guard<std::mutex> lock(mutex_);
        ended_ = true;
        for (auto& memory : spare_) memory = {};
    }

private:
    std::mutex mutex_;
    HugeArray<std::uint8_t> spare_[6];  // two blocks
    bool ended_ = false;
};

// Memory for `capacity` values.
template <class T>
class Column {
public:
    Column(std::size_t capacity, const std::shared_ptr<Recycling>& recycling)
        : memory_(recycling->take(capacity * sizeof(T))), recycling_(recycling) {}
    Column(Column&&) = default;
    Column& operator=(Column&& other) {
        std::swap(memory_, other.memory_), std::swap(recycling_, other.recycling_);
        return *this;
    }
    ~Column() {
        if (memory_.size()) recycling_->give(std::move(memory_));
    }

    T* data() { return reinterpret_cast<T*>(memory_.data()); }
    // Returns the first `size` values as an array that owns them. A small part of the memory is copied instead.
    static py::array_t<T> to_array(Column&& column, std::size_t size) {
        const auto length = static_cast<py::ssize_t>(size);
        if (size * sizeof(T) < column.memory_.size() / 2) return py::array_t<T>(length, column.data());
        auto owner = std::make_unique<Column>(std::move(column));
        T* const data = owner->data();
        py::capsule capsule(owner.get(), [](void* p) { delete static_cast<Column*>(p); });
        owner.release();
        return py::array_t<T>(length, data, capsule);
    }

private:
    HugeArray<std::uint8_t> memory_;
    std::shared_ptr<Recycling> recycling_;
};

struct Block {
    Block(std::size_t capacity, const std::shared_ptr<Recycling>& recycling)
        : capacity(capacity), first(capacity, recycling), second(capacity, recycling), distances(capacity, recycling) {}

    // Copies the pairs of a smaller block, which is full.
    void copy(Block& other) {
        std::copy_n(other.first.data(), other.capacity, first.data());
        std::copy_n(other.second.data(), other.capacity, second.data());
        std::copy_n(other.distances.data(), other.capacity, distances.data());
        size = other.size;
    }

    std::size_t capacity, size = 0;
    Column<std::int64_t> first, second;
    Column<std::int32_t> distances;
};

class Join {
public:
    // make(options): returns the stream. It is called without the interpreter's lock.
    template <class Make>
    Join(const py::object& max_pairs, const py::object& block, const py::object& threads, Make make)
        : most_(size_of(block, "block", 1)), capacity_(std::min(most_, first_capacity)) {
        JoinOptions options = options_of(threads, ctrl_c_.interrupt_anywhere());
        if (!max_pairs.is_none()) options.max_pairs = size_of(max_pairs, "max_pairs");
        const py::gil_scoped_release release;
        stream_ = std::make_unique<PairStream>(make(options));
    }
    Join(const Join&) = delete;
    Join& operator=(const Join&) = delete;
    ~Join() { recycling_->end(); }

    py::tuple next() {
        std::optional<Block> block;
        {
            const Turn turn(*this);
            if (stream_) block = read();
            if (!block) recycling_->end(), stream_.reset();  // frees its memory
        }
        if (!block) throw py::stop_iteration();
        return py::make_tuple(Column<std::int64_t>::to_array(std::move(block->first), block->size),
                              Column<std::int64_t>::to_array(std::move(block->second), block->size),
                              Column<std::int32_t>::to_array(std::move(block->distances), block->size));
    }
    std::string explain() {
        const Turn turn(*this);
        return stream_ ? stream_->explain() : "";
    }

private:
    static constexpr std::size_t first_capacity = std::size_t{1} << 16;

    // The memory of a block grows with the pairs, because a block may be larger than memory.
    std::optional<Block> read() {
        Block block(capacity_, recycling_);
        for (;;) {
            block.size += stream_->next(block.first.data() + block.size, block.second.data() + block.size,
                                        block.distances.data() + block.size, block.capacity - block.size);
            if (block.size < block.capacity || block.capacity == most_) break;
            recycling_ = std::make_shared<Recycling>();  // without memory of smaller blocks, which none needs again
            try {
                Block larger(std::min(most_, 2 * block.capacity), recycling_);
                larger.copy(block);
                block = std::move(larger);
            } catch (const std::bad_alloc&) {
                break;  // the pairs so far are a block, too
            }
            capacity_ = block.capacity;  // a full block is often followed by another
        }
        if (!block.size) return {};
        return block;
    }

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

    const std::size_t most_;
    std::size_t capacity_;
    std::shared_ptr<Recycling> recycling_ = std::make_shared<Recycling>();
    Ctrl_C ctrl_c_;
    std::mutex mutex_;
    std::atomic<std::thread::id> thread_{};  // that has locked the mutex
    std::unique_ptr<PairStream> stream_;
};

std::unique_ptr<Join> join_arrays(const py::object& a, const py::object& b, const py::object& bits,
                                  const py::object& radius, const py::object& max_pairs, const py::object& block,
                                  const py::object& threads) {
    const unsigned width = bits_of(bits), within = within_of(radius, width);
    const Codes first = codes_from(a, b.is_none() ? "codes" : "a", width);
    const bool self = b.is_none();
    const Codes second = self ? first : codes_from(b, "b", width);
    return std::make_unique<Join>(max_pairs, block, threads, [&](const JoinOptions& options) {
        return self ? self_join(first, within, options) : join(first, second, within, options);
    });
}

std::unique_ptr<Join> join_snapshots(const Snapshot& a, const Snapshot* b, const py::object& radius,
                                     const py::object& where, const py::object& max_pairs, const py::object& block,
                                     const py::object& threads) {
    const unsigned within = within_of(radius, a.bits());
    const Where selected = where_of(where);
    return std::make_unique<Join>(max_pairs, block, threads, [&](const JoinOptions& options) {
        return b ? join(a, *b, within, options, selected) : self_join(a, within, options, selected);
    });
}

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
    m.def("join", join_arrays, arg("a"), arg("b"), arg("bits"), arg("radius"), arg("max_pairs"), arg("block"),
          arg("threads"), "Returns the pairs within the radius, of two arrays of codes or, where b is None, of one.");
    m.def("join_snapshots", join_snapshots, arg("a"), arg("b"), arg("radius"), arg("where"), arg("max_pairs"),
          arg("block"), arg("threads"), "Returns the pairs of ids within the radius.");
    m.def("join_count", join_count_arrays, arg("a"), arg("b"), arg("bits"), arg("radius"), arg("threads"),
          "Returns the number of pairs that join finds.");
    m.def("clusters", clusters_array, arg("codes"), arg("bits"), arg("radius"), arg("greedy"), arg("threads"),
          "Returns the cluster of each code.");
}

}  // namespace idcwh::bindings
