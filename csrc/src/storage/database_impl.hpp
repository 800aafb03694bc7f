// What a handle on a database holds, and the rules for it: one change at a time, by the process that opened it.
#pragma once

#include <idcwh/database.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <unistd.h>

#include "base/fail.hpp"
#include "storage/writer.hpp"

namespace idcwh {

struct Database::Impl {
    std::string path;      // as it was given, for messages
    std::string place;     // the same from the root on
    std::string hidden;    // name of the file until it is published; empty: it is at place
    bool replace = false;  // what is at place when it is published
    storage::File file;
    storage::Header header;
    bool writing = false;
    bool auto_compact = true;
    pid_t process = getpid();
    std::unique_ptr<storage::Writer> writer;
    std::optional<OptimizeOptions> structures;  // set by optimize(): what may be built anew as the file changes

    mutable std::mutex changing;  // one change or refresh at a time
    mutable std::mutex looking;   // at view
    std::shared_ptr<const storage::FileView> view;

    ~Impl() { discard(); }
    const std::string& here() const { return hidden.empty() ? place : hidden; }
    void publish();
    // Removes a file that was not published, and closes. Changes in progress finish first; later ones raise an error.
    void discard() {
        const std::lock_guard turn(changing);
        remove_hidden();
        if (writing && process == getpid() && file.is_open()) {
            try {
                file.sync();  // the last mark
            } catch (const Error&) {
                // It spares a search and nothing else.
            }
            file.unlock();
        }
        file.close();
        show(std::shared_ptr<const storage::FileView>());
    }
    std::shared_ptr<const storage::FileView> newest() const {
        const std::lock_guard turn(looking);
        if (!view) fail({.path = path, .problem = "the database is closed", .hint = "open it again"});
        return view;
    }
    void show(storage::Commit commit) {
        show(std::make_shared<const storage::FileView>(file, header, std::move(commit), newest().get()));
    }
    void show(std::shared_ptr<const storage::FileView> next) {
        const std::lock_guard turn(looking);
        view.swap(next);
    }
    void remove_hidden() {
        if (!hidden.empty() && process == getpid()) storage::remove(hidden);
        hidden.clear();
    }
    void check_writable() const;
    void check_untouched() const;
    void change(const storage::Change& what);
    void compact_when_due();
    // Builds structures over what is new, when it is much, or `always`; nothing unless optimize() was called.
    void maintain(bool always);
    void compact();
    std::size_t update(const std::int64_t* removed, std::size_t removed_count, const NewItems& items,
                       std::int64_t* assigned);
};

namespace storage {

// The file at this path, locked for us; Error(locked) when somebody else has it.
File locked(const std::string& path, bool write);

}  // namespace storage

}  // namespace idcwh
