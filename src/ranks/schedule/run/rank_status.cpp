#include "ranks/schedule/run/rank_status.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <gantry/channel.hpp>
#include <tuple>

#include "core/base/clock.hpp"
#include "core/base/result.hpp"
#include "ranks/group/group.hpp"

namespace gantry {
namespace {

std::string text_of(const RankStep& step) {
  return fmt::format("step {} ({})", step.step, to_string(step.verb));
}

std::string own_text(const RankStep& step) {
  if (!step.peer) return text_of(step);
  const char* const way = step.verb == PlanVerb::get ? "from" : "to";
  return fmt::format("step {} ({} {} rank {})", step.step, to_string(step.verb), way, *step.peer);
}

std::string far_text(const RankStep& step) {
  return fmt::format("{} of rank {}", text_of(step), step.peer.value_or(0));
}

namespace fs = std::filesystem;

constexpr std::size_t kMostPages = 4096;
constexpr int kMostReads = 100;  // of a page that its rank is writing

// ---- bytes -------------------------------------------------------------------------------------

/// The page's fields, wherever the bytes came from.
class PageReader {
 public:
  explicit PageReader(ConstByteSpan bytes) noexcept : bytes_(bytes) {}

  std::uint64_t number(std::size_t offset, std::uint64_t most = ~std::uint64_t{0}) noexcept {
    std::uint64_t value = 0;
    ::memcpy(&value, bytes_.data() + offset, sizeof value);
    is_fine_ = is_fine_ && value <= most;
    return value;
  }
  [[nodiscard]] std::string text(std::size_t offset, std::size_t size) const {
    const auto* const begin = reinterpret_cast<const char*>(bytes_.data() + offset);
    std::string value(begin, ::strnlen(begin, size));
    std::ranges::replace_if(value, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
    return value;
  }
  RankPageStep step(std::size_t offset) const noexcept {
    RankPageStep value;
    ::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  std::optional<RankStep> checked(const RankPageStep& step, unsigned ranks) noexcept {
    const bool has_peer = step.rank != RankPageStep::kNoRank;
    is_fine_ = is_fine_ && step.verb <= static_cast<std::uint8_t>(PlanVerb::barrier) &&
               (!has_peer || step.rank < ranks) && step.step < kMostSteps;
    if (!is_fine_) return std::nullopt;
    return RankStep{step.step, static_cast<PlanVerb>(step.verb),
                    has_peer ? std::optional<unsigned>(step.rank) : std::nullopt};
  }
  void refuse() noexcept { is_fine_ = false; }
  [[nodiscard]] bool is_fine() const noexcept { return is_fine_; }

 private:
  ConstByteSpan bytes_;
  bool is_fine_ = true;
};

void read_operation(PageReader& page, std::size_t offset, RankStatus& into) {
  const RankPageStep first = page.step(offset);
  const RankPageStep second = page.step(offset + sizeof first);
  RankOperation one;
  using Kind = RankPage::Kind;
  switch (static_cast<Kind>(first.kind)) {
    case Kind::none:
      return;
    case Kind::comes:
      if (first.rank >= into.ranks) return page.refuse();
      one.absent = first.rank;
      break;
    case Kind::computes:
    case Kind::moves:
      one.own = page.checked(first, into.ranks);
      break;
    case Kind::waits:
      one.own = page.checked(first, into.ranks);
      one.awaited = page.checked(second, into.ranks);
      break;
    case Kind::hears:
      one.awaited = page.checked(second, into.ranks);
      break;
    default:
      return page.refuse();
  }
  into.operations.push_back(one);
}

// ---- files -------------------------------------------------------------------------------------

/// The bytes, and whether they were not being written meanwhile.
bool read_once(int file, std::span<std::byte> into) noexcept {
  constexpr auto kAt = static_cast<off_t>(offsetof(RankPage, version));
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  const auto size = static_cast<ssize_t>(into.size());
  if (::pread(file, &before, sizeof before, kAt) != sizeof before ||
      ::pread(file, into.data(), into.size(), 0) != size ||
      ::pread(file, &after, sizeof after, kAt) != sizeof after)
    return std::ranges::fill(into, std::byte{0}), true;
  return before == after && before % 2 == 0;  // P1
}

/// Nothing: it is dead, or none of this user's.
std::optional<RankStatus> read_page(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat facts{};
  if (!file || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode) ||
      (facts.st_uid != ::geteuid() && ::geteuid() != 0))
    return std::nullopt;
  if (::flock(file.get(), LOCK_SH | LOCK_NB) == 0) {  // P2
    if (facts.st_uid == ::geteuid()) ::unlink(path.c_str());
    return std::nullopt;
  }
  std::array<std::byte, sizeof(RankPage)> bytes{};
  for (int reads = 0; !read_once(file.get(), bytes) && reads < kMostReads; ++reads) continue;
  auto status = decode_rank_page(bytes, monotonic_ns());
  if (!status) return std::nullopt;
  // A fork of the rank may keep the lock when the rank itself is gone.
  PageReader page(bytes);
  const auto pid = static_cast<std::uint64_t>(status->pid);
  if (page.number(offsetof(RankPage, pid_space)) != own_pid_space()) {
    status->pid = 0;
  } else if (process_start(pid) != page.number(offsetof(RankPage, pid_started))) {
    return std::nullopt;
  }
  status->process = process_state(status->pid);
  if (status->process == ProcessState::zombie || status->process == ProcessState::gone)
    return std::nullopt;
  return std::move(*status);
}

void read_folder(const fs::path& folder, std::vector<RankStatus>& into) {
  std::error_code error;
  if (fs::is_symlink(folder, error)) return;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (into.size() >= kMostPages) return;
    if (entry->path().extension() != kRankPageSuffix) continue;
    if (auto status = read_page(entry->path().string())) into.push_back(std::move(*status));
  }
}

}  // namespace

std::string_view to_string(RankState state) noexcept {
  constexpr std::string_view kNames[] = {"joining", "idle", "preparing", "running", "broken"};
  const auto index = static_cast<std::size_t>(state);
  return index < std::size(kNames) ? kNames[index] : "?";
}

std::string RankOperation::text() const {
  if (absent) return fmt::format("waits for rank {}", *absent);
  if (!own && !awaited) return {};
  if (!awaited) return own_text(*own) + " is under way";
  return fmt::format("{}waits for {}", own ? own_text(*own) + " " : "", far_text(*awaited));
}

std::string RankStatus::text() const {
  if (state == RankState::broken) return why;
  std::string line;
  if (state == RankState::running)
    line = fmt::format("run {}, {} of {} steps ended", runs, ended, steps);
  if (state == RankState::running && operations.empty() && handed_over)
    line += fmt::format(", newest {}", own_text(*handed_over));
  for (const RankOperation& one : operations) line += (line.empty() ? "" : "; ") + one.text();
  return line;
}

Result<RankStatus> decode_rank_page(ConstByteSpan bytes, std::uint64_t now_ns) {
  const auto wrong = [] { return fail(Code::peer_misbehaved, "no page of a rank"); };
  if (bytes.size() != sizeof(RankPage)) return wrong();
  PageReader page(bytes);
  if (page.number(offsetof(RankPage, magic)) != RankPage::kMagic) return wrong();
  RankStatus status;
  constexpr std::uint64_t kMostPid = 1 << 22;  // the kernel's own limit
  status.pid = static_cast<int>(page.number(offsetof(RankPage, pid), kMostPid));
  status.ranks = static_cast<unsigned>(page.number(offsetof(RankPage, ranks), kMostGroupRanks));
  status.rank = static_cast<unsigned>(page.number(offsetof(RankPage, rank), kMostGroupRanks - 1));
  const auto state =
      page.number(offsetof(RankPage, state), static_cast<std::uint64_t>(RankPage::State::broken));
  if (!page.is_fine() || status.pid == 0 || status.rank >= status.ranks || state == 0)
    return wrong();
  status.state = static_cast<RankState>(state - 1);
  status.group = page.text(offsetof(RankPage, name), sizeof(RankPage::name));
  const std::uint64_t since = page.number(offsetof(RankPage, since_ns));
  status.in_state = std::chrono::nanoseconds(now_ns - std::min(since, now_ns));
  status.epoch = page.number(offsetof(RankPage, epoch));
  status.operation = page.number(offsetof(RankPage, operation));
  status.plan_hash = page.number(offsetof(RankPage, plan_hash));
  status.plan = page.text(offsetof(RankPage, plan), sizeof(RankPage::plan));
  status.runs = page.number(offsetof(RankPage, runs));
  status.steps = page.number(offsetof(RankPage, steps), 2 * kMostSteps);
  status.ended = std::min(page.number(offsetof(RankPage, ended)), status.steps);
  if (status.state == RankState::broken)
    status.why = page.text(offsetof(RankPage, why), sizeof(RankPage::why));
  if (status.state == RankState::running) {
    const RankPageStep newest = page.step(offsetof(RankPage, handed_over));
    if (newest.kind != 0) status.handed_over = page.checked(newest, status.ranks);
  }
  for (std::size_t i = 0; i < RankPage::kMostSteps; ++i)
    read_operation(page, offsetof(RankPage, at) + i * sizeof(RankPage::At), status);
  if (!page.is_fine()) return wrong();
  return status;
}

Result<std::vector<RankStatus>> list_ranks(std::string_view directory) {
  return guarded([&]() -> Result<std::vector<RankStatus>> {
    const fs::path root = channel_directory_path(directory);
    std::vector<RankStatus> ranks;
    read_folder(root / "groups", ranks);
    std::error_code error;
    for (fs::directory_iterator entry(root, error), end; !error && entry != end;
         entry.increment(error)) {
      std::error_code vanished;
      if (entry->path().filename().string().starts_with(kRunPrefix) && !entry->is_symlink(vanished))
        read_folder(entry->path() / "groups", ranks);
    }
    if (error && error != std::errc::no_such_file_or_directory)
      return fail_errno(root.string(), error.value());
    std::ranges::sort(ranks, [](const RankStatus& one, const RankStatus& other) {
      return std::tie(one.group, one.epoch, one.rank) <
             std::tie(other.group, other.epoch, other.rank);
    });
    return ranks;
  });
}

}  // namespace gantry
