#include "ranks/group/rank_page.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>

#include "core/base/clock.hpp"
#include "core/base/result.hpp"
#include "core/channel/naming/rendezvous.hpp"
#include "ranks/group/group.hpp"

namespace gantry {
namespace {

constexpr std::string_view kUnfinishedPage = ".rank-";

template <std::size_t kSize>
void store_text(std::array<char, kSize>& to, std::string_view text) noexcept {
  to.fill('\0');
  std::ranges::copy(text.substr(0, kSize - 1), to.begin());
}

}  // namespace

// proc(5): the 22nd field; the second may hold anything, so the last parenthesis counts.
std::uint64_t process_start(std::uint64_t pid) noexcept {
  constexpr unsigned kFieldsBetween = 20;
  std::array<char, 40> path{};
  *fmt::format_to_n(path.data(), path.size() - 1, "/proc/{}/stat", pid).out = '\0';
  const Fd file(::open(path.data(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> text{};
  const ssize_t got = file ? ::read(file.get(), text.data(), text.size()) : 0;
  std::string_view rest(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  const auto comm = rest.rfind(')');
  if (comm == std::string_view::npos) return 0;
  for (unsigned field = 0, at = static_cast<unsigned>(comm); field < kFieldsBetween; ++field) {
    const auto space = rest.find(' ', at + 1);
    if (space == std::string_view::npos) return 0;
    at = static_cast<unsigned>(space);
    if (field + 1 == kFieldsBetween) rest.remove_prefix(at + 1);
  }
  std::uint64_t started = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), started);
  return started;
}

std::uint64_t own_pid_space() noexcept {
  struct stat facts{};
  return ::stat("/proc/self/ns/pid", &facts) == 0 ? facts.st_ino : 0;
}

// That died between making a page and giving it its name: ".rank-PID-WORD".
bool is_unfinished_page(std::string_view name) noexcept {
  pid_t pid = 0;
  return name.starts_with(kUnfinishedPage) &&
         std::from_chars(name.data() + kUnfinishedPage.size(), name.data() + name.size(), pid).ec ==
             std::errc() &&
         pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
}

void sweep_rank_pages(const std::string& directory) noexcept {
  sweep_all_stale(directory);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(directory.c_str()), &::closedir);
  if (!folder) return;
  while (const dirent* const entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (!name.ends_with(kRankPageSuffix) && !is_unfinished_page(name)) continue;
    const Fd file(::openat(::dirfd(folder.get()), entry->d_name,
                           O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (file && ::flock(file.get(), LOCK_SH | LOCK_NB) == 0)  // P2
      ::unlinkat(::dirfd(folder.get()), entry->d_name, 0);
  }
}

// ---- the rank's side ---------------------------------------------------------------------------

RankReport::RankReport(const GroupOptions& options) noexcept {
  const auto opened = guarded([&]() -> Result<void> {
    open_file(options);
    return {};
  });
  static_cast<void>(opened);  // nobody sees this rank
}

RankReport::~RankReport() {
  if (page_ == &own_) return;
  ::munmap(page_, sizeof(RankPage));
  if (fork_guard_.is_this()) ::unlink(path_.c_str());
}

void RankReport::open_file(const GroupOptions& options) noexcept {
  own_.magic = RankPage::kMagic;
  own_.pid = static_cast<std::uint64_t>(::getpid());
  own_.pid_space = own_pid_space();
  own_.pid_started = process_start(own_.pid);
  own_.rank = options.rank;
  own_.ranks = options.ranks;
  store_text(own_.name, options.name);
  enter(RankPage::State::joining);

  const auto directory = group_directory(options);
  if (!directory) return;
  if (options.rank == 0) sweep_rank_pages(*directory);
  std::string made = fmt::format("{}/{}{}-XXXXXX", *directory, kUnfinishedPage, own_.pid);
  Fd file(::mkostemp(made.data(), O_CLOEXEC));
  if (!file) return;
  const std::string name =
      fmt::format("{}/{}{}", *directory, made.substr(directory->size() + 2), kRankPageSuffix);
  void* mapped = MAP_FAILED;
  // Room is taken now: a page that finds none later would be a SIGBUS.
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0 &&
      ::posix_fallocate(file.get(), 0, sizeof(RankPage)) == 0)
    mapped = ::mmap(nullptr, sizeof(RankPage), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return void(::unlink(made.c_str()));
  auto* const page = static_cast<RankPage*>(mapped);
  ::memcpy(mapped, static_cast<const void*>(&own_), sizeof(RankPage));
  if (::rename(made.c_str(), name.c_str()) != 0) {  // P2
    ::munmap(mapped, sizeof(RankPage));
    return void(::unlink(made.c_str()));
  }
  page_ = page;
  path_ = name;
  file_ = std::move(file);
}

template <class Write>
void RankReport::write(Write write) noexcept {
  if (!fork_guard_.is_this()) return;  // it is the parent's
  // P1. The reader is another process, which reads the version before and after the rest.
  const std::uint64_t version = page_->version.load(std::memory_order_relaxed);  // own writes
  page_->version.store(version + 1, std::memory_order_relaxed);  // ordered by the fence
  std::atomic_thread_fence(std::memory_order_release);
  write(*page_);
  page_->version.store(version + 2, std::memory_order_release);
}

void RankReport::enter(RankPage::State state, std::uint64_t operation) noexcept {
  write([&](RankPage& page) {
    page.state = static_cast<std::uint64_t>(state);
    page.since_ns = monotonic_ns();
    page.operation = operation;
    page.at = {};
  });
}

void RankReport::joined(std::uint64_t epoch) noexcept {
  write([&](RankPage& page) { page.epoch = epoch; });
  enter(RankPage::State::idle);
}

void RankReport::broke(std::string_view why) noexcept {
  write([&](RankPage& page) { store_text(page.why, why); });
  enter(RankPage::State::broken, page_->operation);
}

void RankReport::plan(std::uint64_t hash, std::string_view about, std::uint64_t steps) noexcept {
  write([&](RankPage& page) {
    page.plan_hash = hash;
    page.steps = steps;
    store_text(page.plan, about);
  });
}

void RankReport::begin_run(std::uint64_t operation) noexcept {
  count_ended(0);
  hand_over({});
  write([](RankPage& page) { ++page.runs; });
  enter(RankPage::State::running, operation);
}

void RankReport::show(std::span<const RankPage::At> at) noexcept {
  write([&](RankPage& page) {
    page.at = {};
    std::ranges::copy(at.first(std::min(at.size(), page.at.size())), page.at.begin());
  });
}

void RankReport::show_missing(std::span<const unsigned> ranks) noexcept {
  std::array<RankPage::At, RankPage::kMostSteps> at{};
  const std::size_t count = std::min(ranks.size(), at.size());
  for (std::size_t i = 0; i < count; ++i) {
    at[i].first.rank = static_cast<std::uint16_t>(ranks[i]);
    at[i].first.kind = static_cast<std::uint8_t>(RankPage::Kind::comes);
  }
  show(std::span(at).first(count));
}

}  // namespace gantry
