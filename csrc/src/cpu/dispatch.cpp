// The list of kernel implementations and the active one: the fastest supported one, unless IDCWH_ISA or isa_force()
// names another.
#include "cpu/dispatch.hpp"

#include <idcwh/error.hpp>
#include <idcwh/isa.hpp>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "cpu/cpu.hpp"
#include "cpu/self_check.hpp"

namespace idcwh {

Candidate candidate(const kernels::Kernels& kernels, bool has) {
    if (!has) return {&kernels, "'" + std::string(kernels.name) + "' is not supported on this machine"};
    if (const char* name = &kernels == &kernels::portable ? nullptr : differing_kernel(kernels))
        return {&kernels, "'" + std::string(kernels.name) + "' gives wrong results on this machine (" + name + ")"};
    return {&kernels, ""};
}

const kernels::Kernels* best_of(const std::vector<Candidate>& candidates) {
    const kernels::Kernels* found = nullptr;
    for (const auto& candidate : candidates)
        if (candidate.missing.empty()) found = candidate.kernels;
    return found;
}

namespace {

// Slowest first.
std::vector<Candidate> checked_candidates() {
    std::vector<Candidate> found = {candidate(kernels::portable, true)};
#if defined(__x86_64__)
    const auto& cpu = cpu::features();
    found.push_back(candidate(kernels::popcnt, cpu.popcnt));
    found.push_back(candidate(kernels::avx2, cpu.avx2));
    found.push_back(candidate(kernels::avx512, cpu.avx512));
    found.push_back(candidate(kernels::avx512vpopcnt, cpu.avx512vpopcnt));
#elif defined(__aarch64__)
    found.push_back(candidate(kernels::neon, true));
#endif
    return found;
}

// Returns the list, which the first call creates. There is no lock, because a fork could leave it locked. Concurrent
// first calls may create it twice, and keep one.
const std::vector<Candidate>& candidates() {
    static std::atomic<const std::vector<Candidate>*> kept{nullptr};
    const auto* list = kept.load(std::memory_order_acquire);
    if (!list) {
        auto made = std::make_unique<const std::vector<Candidate>>(checked_candidates());
        if (kept.compare_exchange_strong(list, made.get(), std::memory_order_acq_rel)) list = made.release();
    }
    return *list;
}

std::string names() {
    std::string text;
    for (const auto& candidate : candidates())
        if (candidate.missing.empty()) text += (text.empty() ? "" : ", ") + std::string(candidate.kernels->name);
    return text;
}

const kernels::Kernels* by_name(std::string_view name, const char* source, ErrorCode unknown) {
    if (name == "auto") return best_of(candidates());
    for (const auto& candidate : candidates()) {
        if (name != candidate.kernels->name) continue;
        if (candidate.missing.empty()) return candidate.kernels;
        throw Error(ErrorCode::unsupported,
                    {.path = source, .problem = candidate.missing, .expected = names() + " or auto"});
    }
    throw Error(unknown, {.path = source,
                          .problem = "is not the name of an instruction set",
                          .found = "'" + std::string(name) + "'",
                          .expected = names() + " or auto"});
}

std::atomic<const kernels::Kernels*> active{nullptr};

}  // namespace

const kernels::Kernels& active_kernels() {
    const auto* kernels = active.load(std::memory_order_acquire);
    if (!kernels) {
        const char* name = std::getenv("IDCWH_ISA");
        kernels = by_name(name && *name ? name : "auto", "IDCWH_ISA", ErrorCode::unsupported);
        active.store(kernels, std::memory_order_release);
    }
    return *kernels;
}

std::vector<Isa> isa_list() {
    const auto* now = &active_kernels();
    std::vector<Isa> list;
    for (const auto& candidate : candidates())
        list.push_back({candidate.kernels->name, candidate.missing.empty(), candidate.kernels == now});
    return list;
}

std::string isa_active() { return active_kernels().name; }

void isa_force(const std::string& name) {
    active.store(by_name(name, "isa_force", ErrorCode::invalid_argument), std::memory_order_release);
}

}  // namespace idcwh
