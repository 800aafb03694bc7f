// Bindings of idcwh::Database and its snapshots. _core.pyi documents the functions.
#include <idcwh/database.hpp>

#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "bind.hpp"
#include "optimize.hpp"

namespace idcwh::bindings {
namespace {

// Texts in the encoding of the file: keys as bytes of file names, labels as UTF-8 that may contain lone surrogates. The
// bytes objects in encoded_ own the memory of the views.
class Texts {
public:
    enum class Kind { key, label };

    Texts(const py::object& list, const char* name, Kind kind, std::size_t count) {
        if (list.is_none()) return;
        const auto items = py::reinterpret_borrow<py::sequence>(list);
        views_.reserve(count);
        for (const py::handle item : items) {
            if (item.is_none()) {
                views_.emplace_back();
                continue;
            }
            if (!PyUnicode_Check(item.ptr()))
                throw py::type_error(std::string(name) + " must be texts, not " +
                                     std::string(py::str(py::type::handle_of(item).attr("__name__"))) + " (" +
                                     std::string(py::repr(item)) + ")");
            PyObject* bytes = kind == Kind::key ? PyUnicode_EncodeFSDefault(item.ptr())
                                                : PyUnicode_AsEncodedString(item.ptr(), "utf-8", "surrogatepass");
            if (!bytes) throw py::error_already_set();
            encoded_.push_back(py::reinterpret_steal<py::object>(bytes));
            views_.emplace_back(PyBytes_AS_STRING(bytes), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes)));
        }
        if (views_.size() != count)
            throw py::value_error(std::string(name) + " must be " + std::to_string(count) +
                                  " texts, one per code, not " + std::to_string(views_.size()));
        given_ = true;
    }
    bool given() const { return given_; }
    const std::string_view* data() const { return given_ ? views_.data() : nullptr; }
    const std::vector<std::string_view>& views() const { return views_; }

private:
    bool given_ = false;
    std::vector<std::string_view> views_;
    std::vector<py::object> encoded_;
};

py::object key_text(std::string_view key) {
    if (key.empty()) return py::none();
    PyObject* text = PyUnicode_DecodeFSDefaultAndSize(key.data(), static_cast<py::ssize_t>(key.size()));
    if (!text) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(text);
}

py::object label_text(std::string_view label) {
    if (!label.data()) return py::none();
    const auto size = static_cast<py::ssize_t>(label.size());
    PyObject* text = PyUnicode_DecodeUTF8(label.data(), size, "surrogatepass");
    if (!text) {
        PyErr_Clear();
        text = PyUnicode_DecodeUTF8(label.data(), size, "replace");
    }
    if (!text) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(text);
}

const std::int64_t* ids_or_null(const py::object& ids, std::size_t count) {
    if (ids.is_none()) return nullptr;
    const auto expected = [count] {
        return "C-contiguous int64 of shape (" + std::to_string(count) + ",), one per code";
    };
    return data_of<std::int64_t>(ids, "ids", expected, static_cast<py::ssize_t>(count));
}

std::size_t rows_of_codes(const py::object& codes, unsigned bits) {
    std::size_t rows;
    codes_of(codes, "codes", bits, rows);
    return rows;
}

// The arguments of a call that adds items, as NewItems. It refers to the caller's arrays, which must outlive it.
struct Added {
    std::size_t size;
    Texts keys, labels;
    NewItems items;

    Added(unsigned bits, const py::object& codes, const py::object& ids, const py::object& key_list,
          const py::object& label_list, const py::object& mtime_signatures, const py::object& checksums)
        : size(rows_of_codes(codes, bits)),
          keys(key_list, "keys", Texts::Kind::key, size),
          labels(label_list, "labels", Texts::Kind::label, size) {
        items.codes = codes_of(codes, "codes", bits, items.size);
        items.ids = ids_or_null(ids, size);
        items.keys = keys.data();
        items.labels = labels.data();
        if (!mtime_signatures.is_none())
            items.mtime_signatures = data_of<std::uint32_t>(
                mtime_signatures, "mtime_signatures",
                [&] { return "C-contiguous uint32 of shape (" + std::to_string(size) + ",)"; },
                static_cast<py::ssize_t>(size));
        if (!checksums.is_none())
            items.checksums = reinterpret_cast<const Checksum*>(data_of<std::uint64_t>(
                checksums, "checksums",
                [&] { return "C-contiguous uint64 of shape (" + std::to_string(size) + ", 2)"; },
                static_cast<py::ssize_t>(size), 2));
    }
};

// Runs write(items, assigned) without the GIL and returns the assigned ids.
template <class Write>
py::array_t<std::int64_t> written(const Added& added, Write write) {
    py::array_t<std::int64_t> assigned(static_cast<py::ssize_t>(added.size));
    auto* out = assigned.mutable_data();
    {
        const py::gil_scoped_release release;
        write(added.items, out);
    }
    return assigned;
}

struct IdList {
    const std::int64_t* data;
    std::size_t size;

    explicit IdList(const py::object& ids) {
        const auto expected = [] { return std::string("C-contiguous int64 of one dimension"); };
        const bool flat = py::isinstance<py::array>(ids) && py::reinterpret_borrow<py::array>(ids).ndim() == 1;
        const py::ssize_t rows = flat ? py::reinterpret_borrow<py::array>(ids).shape(0) : -1;
        data = data_of<std::int64_t>(ids, "ids", expected, rows);
        size = static_cast<std::size_t>(rows);
    }
};

// Returns of_id(id) for these ids or, if ids is None, of_item(key, label) for every item in the order of rows.
template <class OfId, class OfItem>
py::list column(const DatabaseSnapshot& self, const py::object& ids, OfId of_id, OfItem of_item) {
    if (ids.is_none()) {
        py::list all(self.size());
        py::size_t at = 0;
        self.each([&](std::int64_t, std::string_view key, std::string_view label, std::uint32_t) {
            all[at++] = of_item(key, label);
        });
        return all;
    }
    const IdList wanted(ids);
    py::list some(wanted.size);
    for (std::size_t i = 0; i < wanted.size; ++i) some[i] = of_id(wanted.data[i]);
    self.check_intact();
    return some;
}

py::list keys(const DatabaseSnapshot& self, const py::object& ids) {
    return column(
        self, ids, [&](std::int64_t id) { return key_text(self.key(id)); },
        [](std::string_view key, std::string_view) { return key_text(key); });
}

py::list labels(const DatabaseSnapshot& self, const py::object& ids) {
    return column(
        self, ids, [&](std::int64_t id) { return label_text(self.label(id)); },
        [](std::string_view, std::string_view label) { return label_text(label); });
}

py::array_t<std::uint32_t> mtime_signatures(const DatabaseSnapshot& self, const py::object& ids) {
    if (!ids.is_none()) {
        const IdList wanted(ids);
        py::array_t<std::uint32_t> some(static_cast<py::ssize_t>(wanted.size));
        for (std::size_t i = 0; i < wanted.size; ++i) some.mutable_at(i) = self.mtime_signature(wanted.data[i]);
        return some;
    }
    py::array_t<std::uint32_t> all(static_cast<py::ssize_t>(self.size()));
    auto* out = all.mutable_data();
    const py::gil_scoped_release release;
    self.each([&](std::int64_t, std::string_view, std::string_view, std::uint32_t mtime_signature) {
        *out++ = mtime_signature;
    });
    return all;
}

py::array_t<std::uint64_t> checksums(const DatabaseSnapshot& self, const py::object& ids) {
    static_assert(sizeof(Checksum) == 2 * sizeof(std::uint64_t));
    const std::size_t size = ids.is_none() ? self.size() : IdList(ids).size;
    py::array_t<std::uint64_t> found({static_cast<py::ssize_t>(size), py::ssize_t{2}});
    auto* out = reinterpret_cast<Checksum*>(found.mutable_data());
    if (ids.is_none()) {
        const py::gil_scoped_release release;
        self.checksums(out);
    } else {
        const IdList wanted(ids);
        for (std::size_t i = 0; i < size; ++i) out[i] = self.checksum(wanted.data[i]);
    }
    return found;
}

py::array_t<std::int64_t> find(const DatabaseSnapshot& self, const py::list& wanted) {
    const Texts texts(wanted, "keys", Texts::Kind::key, wanted.size());
    std::vector<std::int64_t> found;
    {
        const py::gil_scoped_release release;
        found = self.find(texts.data(), wanted.size());
    }
    return py::array_t<std::int64_t>(static_cast<py::ssize_t>(found.size()), found.data());
}

// Returns the number of items with each label, in no particular order.
py::list label_counts(const DatabaseSnapshot& self) {
    std::vector<std::pair<std::string_view, std::size_t>> counts;
    {
        const py::gil_scoped_release release;
        counts = self.label_counts();
    }
    py::list result;
    for (const auto& [label, count] : counts) result.append(py::make_tuple(label_text(label), count));
    return result;
}

// Returns a mask of the items with one of the labels and one of the prefixes of keys, and per prefix if a key has it.
py::tuple match(const DatabaseSnapshot& self, const py::object& labels, const py::object& prefixes) {
    const auto size_of_list = [](const py::object& list) { return list.is_none() ? 0 : py::len(list); };
    const Texts label_list(labels, "labels", Texts::Kind::label, size_of_list(labels));
    const Texts prefix_list(prefixes, "key_prefixes", Texts::Kind::key, size_of_list(prefixes));
    py::array_t<bool> mask(static_cast<py::ssize_t>(self.size()));
    std::vector<bool> found(prefix_list.views().size());
    auto* out = mask.mutable_data();
    {
        const py::gil_scoped_release release;
        const std::unordered_set<std::string_view> wanted(label_list.views().begin(), label_list.views().end());
        self.each([&](std::int64_t, std::string_view key, std::string_view label, std::uint32_t) {
            bool kept = !label_list.given() || (label.data() && wanted.contains(label));
            if (prefix_list.given()) {
                bool begins = false;
                for (std::size_t i = 0; i < found.size(); ++i)
                    if (!key.empty() && key.starts_with(prefix_list.views()[i])) begins = found[i] = true;
                kept = kept && begins;
            }
            *out++ = kept;
        });
    }
    py::list prefixes_found;
    for (const bool one : found) prefixes_found.append(one);
    return py::make_tuple(mask, prefixes_found);
}

// Returns a read-only array over the mapped file, which keeps the snapshot alive, or None if the codes are not
// contiguous.
py::object codes_in_place(const py::object& self) {
    const auto& view = py::cast<const DatabaseSnapshot&>(self);
    const std::uint8_t* codes;
    {
        const py::gil_scoped_release release;
        codes = view.codes_in_place();
    }
    if (!codes) return py::none();
    py::array_t<std::uint8_t> array({view.size(), code_bytes(view.bits())}, codes, self);
    array.attr("flags").attr("writeable") = false;
    return array;
}

py::dict info(const Database& self) {
    const DatabaseInfo info = self.info();
    py::dict entry;
    entry["items"] = info.items;
    entry["removed"] = info.removed;
    entry["segments"] = info.segments;
    entry["bytes"] = info.bytes;
    entry["unused"] = info.unused;
    entry["commit"] = info.commit;
    entry["next_id"] = info.next_id;
    return entry;
}

py::dict check(const Database& self, const py::object& threads, const py::object& since) {
    const unsigned most = threads_of(threads);
    const std::uint64_t after = size_of(since, "since");
    Verification found;
    {
        const py::gil_scoped_release release;
        found = self.check(most, after);
    }
    py::list corrupt;
    for (const CorruptRange& range : found.corrupt)
        corrupt.append(py::make_tuple(range.what, range.offset, range.length));
    py::dict result;
    result["corrupt"] = corrupt;
    result["items"] = found.items;
    result["good_items"] = found.good_items;
    result["torn"] = found.torn;
    return result;
}

}  // namespace

void bind_database(py::module_& m) {
    using py::arg;
    const auto none = py::none();
    const auto released = py::call_guard<py::gil_scoped_release>();
    py::class_<DatabaseSnapshot, Snapshot>(m, "DatabaseSnapshot")
        .def("keys", keys, arg("ids") = none)
        .def("labels", labels, arg("ids") = none)
        .def("mtime_signatures", mtime_signatures, arg("ids") = none)
        .def("checksums", checksums, arg("ids") = none)
        .def("find", find, arg("keys"))
        .def("label_counts", label_counts)
        .def("match", match, arg("labels") = none, arg("key_prefixes") = none)
        .def("manifest", [](const DatabaseSnapshot& self) { return py::bytes(self.manifest()); })
        .def("codes_in_place", codes_in_place)
        .def_property_readonly("commit", &DatabaseSnapshot::commit);
    py::class_<Database>(m, "Database")
        .def_static(
            "open",
            [](const std::string& path, bool write) {
                return Database::open(path, write ? Database::Access::write : Database::Access::read);
            },
            arg("path"), arg("write") = false, released)
        .def_static(
            "create",
            [](const std::string& path, const py::object& bits, const std::string& manifest, bool replace,
               bool on_close) {
                const unsigned width = bits_of(bits);
                const py::gil_scoped_release release;
                return Database::create(path, width, manifest, replace,
                                        on_close ? Database::Durability::on_close : Database::Durability::every_change);
            },
            arg("path"), arg("bits"), arg("manifest"), arg("replace") = false, arg("on_close") = false)
        .def_property_readonly("bits", &Database::bits)
        .def_property_readonly("writable", &Database::writable)
        .def("snapshot", &Database::snapshot)
        .def("info", info)
        .def("refresh", &Database::refresh, released)
        .def(
            "update",
            [](Database& self, const py::object& removed, const py::object& codes, const py::object& ids,
               const py::object& key_list, const py::object& label_list, const py::object& mtime_signature_array,
               const py::object& checksum_array) {
                const IdList gone(removed);
                const Added added(self.bits(), codes, ids, key_list, label_list, mtime_signature_array, checksum_array);
                return written(added, [&](const NewItems& items, std::int64_t* out) {
                    self.update(gone.data, gone.size, items, out);
                });
            },
            arg("removed"), arg("codes"), arg("ids") = none, arg("keys") = none, arg("labels") = none,
            arg("mtime_signatures") = none, arg("checksums") = none)
        .def(
            "remove",
            [](Database& self, const py::object& ids) {
                const IdList gone(ids);
                const py::gil_scoped_release release;
                return self.remove(gone.data, gone.size);
            },
            arg("ids"))
        .def(
            "remove_keys",
            [](Database& self, const py::list& wanted) {
                const Texts texts(wanted, "keys", Texts::Kind::key, wanted.size());
                const py::gil_scoped_release release;
                return self.remove_keys(texts.data(), wanted.size());
            },
            arg("keys"))
        .def(
            "set_manifest", [](Database& self, const std::string& json) { self.set_manifest(json); }, arg("json"),
            released)
        .def("compact", &Database::compact, released)
        .def("set_auto_compact", &Database::set_auto_compact, arg("on"))
        .def("optimize", optimize<Database>, arg("memory") = none, arg("threads") = 0)
        .def("drop_structures", &Database::drop_structures, released)
        .def("check", check, arg("threads") = none, arg("since") = 0)
        .def("close", &Database::close, released)
        .def("discard", &Database::discard, released);
}

}  // namespace idcwh::bindings
