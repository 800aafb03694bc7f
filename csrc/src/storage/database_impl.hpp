// Database::Impl: the state of an open database. Changes are made one at a time, by the process that opened the file.
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
    std::string path;      // as the caller gave it, for messages
    std::string place;     // absolute path
    std::string hidden;    // temporary name until the database is published; empty: the file is at `place`
    bool replace = false;  // publishing may replace a file at `place`
    storage::File file;
    storage::Header header;
    bool writing = false;
    bool auto_compact = true;
    pid_t process = getpid();
    std::unique_ptr<storage::Writer> writer;
    std::optional<OptimizeOptions> structures;  // set by optimize(), for structures over later items

    mutable std::mutex changing;  // held during a change or refresh
    mutable std::mutex looking;   // guards view
    std::shared_ptr<const storage::FileView> view;

    ~Impl() { discard(); }
    const std::string& here() const { return hidden.empty() ? place : hidden; }
    void publish();
    // Closes the file, and removes it if it was not published. Changes in progress finish first; later ones throw.
    void discard() {
        const std::lock_guard turn(changing);
        remove_hidden();
        if (writing && process == getpid() && file.is_open()) {
            try {
                file.sync();
            } catch (const Error&) {
                // Only the last mark is not synced. Without it, the next reader searches for the last commit.
            }
            file.unlock();
        }
        file.close();
        show(std::shared_ptr<const storage::FileView>());
    }
    std::shared_ptr<const storage::FileView> newest() const {
        const std::lock_guard turn(looking);
        if (!view) fail({.path = path, .problem = "is closed", .hint = "open it again"});
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
    // Builds structures over new items if there are enough, or `always`. Does nothing unless optimize() was called.
    void maintain(bool always);
    void compact();
    std::size_t update(const std::int64_t* removed, std::size_t removed_count, const NewItems& items,
                       std::int64_t* assigned);
};

namespace storage {

// Opens and locks the file at this path. Throws Error(locked) if another handle or process has locked it.
File locked(const std::string& path, bool write);

}  // namespace storage

}  // namespace idcwh
