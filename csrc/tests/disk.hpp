// A simulated disk whose power may be cut. Everything that was synced is on it afterwards, with any part of the later
// writes.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "storage/fault_injection.hpp"

namespace check {

struct Operation {
    enum Kind { write, sync, truncate, rename, sync_folder } kind;
    std::string path, to;  // `path` is the folder for sync_folder
    std::uint64_t offset = 0;
    std::string data;
    std::size_t acknowledged = 0, begun = 0;  // steps when the operation began
};

// Records operations, and the steps that were acknowledged and begun before each.
struct Recorder final : idcwh::storage::Trace {
    std::vector<Operation> operations;
    std::size_t acknowledged = 0, begun = 0;
    static constexpr std::size_t never = static_cast<std::size_t>(-1);
    std::size_t fails_in = never;  // operations before the failure
    bool for_good = false;         // all later operations fail too
    Recorder() { idcwh::storage::trace = this; }
    ~Recorder() override { idcwh::storage::trace = nullptr; }

    int note(Operation operation) {
        if (fails_in == 0) {
            if (!for_good) fails_in = never;
            return EIO;
        }
        --fails_in;
        operation.acknowledged = acknowledged, operation.begun = begun;
        operations.push_back(std::move(operation));
        return 0;
    }
    int write(const std::string& path, std::uint64_t offset, const void* data, std::size_t size) override {
        return note({Operation::write, path, {}, offset, std::string(static_cast<const char*>(data), size)});
    }
    int sync(const std::string& path) override { return note({Operation::sync, path, {}, 0, {}}); }
    int truncate(const std::string& path, std::uint64_t size) override {
        return note({Operation::truncate, path, {}, size, {}});
    }
    int rename(const std::string& from, const std::string& to) override {
        return note({Operation::rename, from, to, 0, {}});
    }
    int sync_folder(const std::string& folder) override { return note({Operation::sync_folder, folder, {}, 0, {}}); }
};

class Disk {
public:
    // granularity: bytes that reach the disk together.
    explicit Disk(std::uint64_t granularity) : granularity_(granularity) {}

    void apply(const Operation& operation) {
        switch (operation.kind) {
            case Operation::sync_folder: durable_ = names_; return;
            case Operation::rename:
                names_[operation.to] = names_.at(operation.path);
                names_.erase(operation.path);
                return;
            case Operation::write:
            case Operation::truncate: {
                auto& file = names_[operation.path];
                if (!file) file = std::make_shared<File>();
                for (Piece& piece : pieces_of(operation)) {
                    put(file->now, piece);
                    file->pending.push_back(std::move(piece));
                }
                return;
            }
            case Operation::sync: {
                File& file = *names_.at(operation.path);
                file.synced = file.now;
                file.pending.clear();
                return;
            }
        }
    }

    // Calls body(contents) for each distinct content that the file may have after a power cut. Returns true if the file
    // may also be missing.
    template <class Body>
    bool after_a_power_cut(const std::string& name, std::mt19937& random, Body body) const {
        std::set<std::shared_ptr<File>> files;
        bool may_be_missing = false;
        for (const auto* names : {&durable_, &names_}) {
            const auto found = names->find(name);
            if (found == names->end())
                may_be_missing = true;
            else
                files.insert(found->second);
        }
        std::set<std::string> seen;
        const auto offer = [&](const std::string& contents) {
            if (seen.insert(contents).second) body(contents);
        };
        for (const auto& file : files)
            for (const auto& chosen : subsets(file->pending.size(), random)) {
                std::string contents = file->synced;
                for (std::size_t i = 0; i < chosen.size(); ++i)
                    if (chosen[i]) put(contents, file->pending[i]);
                offer(contents);
                // The size reaches the disk independently of the pages.
                std::string other = contents;
                other.resize(file->now.size());
                offer(other);
                if (contents.size() > file->synced.size()) offer(contents.substr(0, file->synced.size()));
            }
        return may_be_missing;
    }

private:
    struct Piece {
        bool cut;
        std::uint64_t offset;
        std::string data;
    };
    struct File {
        std::string synced, now;
        std::vector<Piece> pending;
    };

    std::vector<Piece> pieces_of(const Operation& operation) const {
        if (operation.kind == Operation::truncate) return {{true, operation.offset, {}}};
        std::vector<Piece> pieces;
        for (std::uint64_t at = 0; at < operation.data.size();) {
            const std::uint64_t to_border = granularity_ - (operation.offset + at) % granularity_;
            const std::string data = operation.data.substr(at, to_border);
            pieces.push_back({false, operation.offset + at, data});
            at += data.size();
        }
        return pieces;
    }
    static void put(std::string& contents, const Piece& piece) {
        if (piece.cut) {
            contents.resize(piece.offset);
            return;
        }
        contents.resize(std::max<std::size_t>(contents.size(), piece.offset + piece.data.size()));
        contents.replace(piece.offset, piece.data.size(), piece.data);
    }
    // Returns all subsets of a few pieces. For many: all or none, all but one, only one, the first ones, and random
    // ones.
    static std::vector<std::vector<bool>> subsets(std::size_t n, std::mt19937& random) {
        std::vector<std::vector<bool>> all;
        if (n <= 8) {
            for (std::size_t set = 0; set < std::size_t{1} << n; ++set) {
                all.emplace_back(n);
                for (std::size_t i = 0; i < n; ++i) all.back()[i] = set >> i & 1;
            }
            return all;
        }
        all = {std::vector<bool>(n, false), std::vector<bool>(n, true)};
        for (std::size_t i = 0; i < n; ++i) {
            all.emplace_back(n, false)[i] = true;
            all.emplace_back(n, true)[i] = false;
            all.emplace_back(n, false);
            std::fill_n(all.back().begin(), i, true);
        }
        for (int i = 0; i < 20; ++i) {
            all.emplace_back(n);
            for (std::size_t j = 0; j < n; ++j) all.back()[j] = random() % 2;
        }
        return all;
    }

    std::uint64_t granularity_;
    std::map<std::string, std::shared_ptr<File>> names_, durable_;
};

}  // namespace check
