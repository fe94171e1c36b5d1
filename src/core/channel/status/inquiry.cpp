#include "core/channel/status/inquiry.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <gantry/runtime.hpp>
#include <system_error>

namespace gantry {

Inquiry::Inquiry(ChannelStatus status, Fd socket)
    : status_(std::move(status)), connection_(std::move(socket)) {
  if (const auto producer = peer_of(connection_.receive_fd())) {
    status_.producer_pid = producer->pid;
    status_.producer_uid = producer->uid;
  }
  if (const auto sent = send_hello(connection_.receive_fd(), Purpose::inspect); !sent)
    end(sent.error().message);
}

void Inquiry::end(std::string silence) {
  status_.silence = std::move(silence);
  over_ = true;
}

void Inquiry::take_in() {
  const auto complete = receiver_.take_in(connection_.receive_fd());
  if (!complete && complete.error().code == Code::timed_out) return;
  if (!complete) return end(complete.error().message);
  if (!*complete) return;
  ChannelStatus answer = status_;  // half an answer is none
  const auto decoded = decode_status(receiver_.bytes(), answer);
  if (!decoded) return end(decoded.error().message);
  if (answer.is_inbox) name_the_receiver(answer);
  status_ = std::move(answer);
  status_.answered = true;
  over_ = true;
}

void Inquiry::give_up() {
  if (!over_) end("it gave no answer in time");
}

// The kernel is asked about processes last, about those that the answer names.
ChannelStatus Inquiry::finish() && {
  if (!status_.is_inbox) status_.producer_state = process_state(status_.producer_pid);
  for (SenderStatus& sender : status_.senders) sender.state = process_state(sender.pid);
  for (ConsumerStatus& consumer : status_.consumers) consumer.state = process_state(consumer.pid);
  for (DepartedStatus& one : status_.departed) one.state = process_state(one.pid);
  return std::move(status_);
}

void inquire(std::span<Inquiry> inquiries, Deadline deadline) {
  std::vector<pollfd> events(inquiries.size());
  for (;;) {
    for (std::size_t i = 0; i < inquiries.size(); ++i)
      events[i] = {inquiries[i].socket(), POLLIN, 0};
    const bool all_over = std::ranges::all_of(events, [](const pollfd& e) { return e.fd < 0; });
    // The clock also ends it for producers that keep talking.
    if (all_over || deadline.passed()) break;
    if (::poll(events.data(), events.size(), poll_timeout_ms(deadline)) < 0) continue;  // a signal
    for (std::size_t i = 0; i < inquiries.size(); ++i)
      if (events[i].revents != 0) inquiries[i].take_in();
  }
  for (Inquiry& inquiry : inquiries) inquiry.give_up();
}
namespace {

namespace fs = std::filesystem;
constexpr std::chrono::seconds kAnswerTime{1};
constexpr std::chrono::milliseconds kQuickSweep{500};  // one that takes longer waits for a lock
/// Channels asked at a time: each needs a descriptor.
constexpr std::size_t kTogether = 256;

struct Found {
  std::string folder;
  std::string file;
  std::string name;      // as listed
  std::string pipeline;  // of a run
};

// Links are not followed, neither those of run directories nor those of sockets: root would be led
// out of the folder of another user.
bool is_link(const fs::directory_entry& entry) {
  std::error_code vanished;
  return entry.is_symlink(vanished);
}

// Calls `see` for every entry of `folder`; stops at the first error. A folder that vanishes
// meanwhile has no more entries.
template <class See>
Result<void> for_each_entry(const std::string& folder, See see) {
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error))
    GANTRY_TRY(see(*entry));
  if (!error || error == std::errc::no_such_file_or_directory) return {};
  return fail_errno(folder, error.value());
}

std::string without_suffix(const std::string& file) {
  return file.substr(0, file.size() - std::string_view(kSocketSuffix).size());
}

// Empty if the folder does not tell. What lies there may be anything: it is not waited for.
std::string pipeline_of(const std::string& folder) {
  const std::string path = folder + "/" + std::string(kRunFile);
  const Fd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat facts{};
  std::array<char, EndName::kMostBytes> text{};
  if (!file || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return {};
  const ssize_t length = ::read(file.get(), text.data(), text.size());
  std::string name(text.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  std::ranges::replace_if(name, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return name;
}

Result<void> find_in(const std::string& folder, const std::string& prefix,
                     const std::string& pipeline, std::vector<Found>& into) {
  return for_each_entry(folder, [&](const fs::directory_entry& entry) -> Result<void> {
    const std::string file = entry.path().filename();
    std::error_code vanished;
    // So that nobody's plain file is taken for a stale socket and removed.
    if (file.starts_with('.') || !file.ends_with(kSocketSuffix) || is_link(entry) ||
        !entry.is_socket(vanished))
      return {};
    into.push_back({folder, file, prefix + without_suffix(file), pipeline});
    return {};
  });
}

Result<std::vector<Found>> find_all(const std::string& root) {
  std::vector<Found> found;
  GANTRY_TRY(find_in(root, "", "", found));
  const auto look_into_run = [&](const fs::directory_entry& entry) -> Result<void> {
    const std::string folder = entry.path().filename();
    std::error_code vanished;
    const bool is_ours = folder.starts_with(kRunPrefix) || folder.starts_with(kLinkPrefix);
    if (!is_ours || is_link(entry) || !entry.is_directory(vanished)) return {};
    return find_in(entry.path(), folder + "/", pipeline_of(entry.path()), found);
  };
  GANTRY_TRY(for_each_entry(root, look_into_run));
  std::ranges::sort(found, {}, &Found::name);
  return found;
}

// Time since its socket appeared, for producers that do not say.
std::chrono::nanoseconds age_of(const Found& found) {
  struct stat facts{};
  timespec now{};
  if (::lstat((found.folder + "/" + found.file).c_str(), &facts) != 0) return {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::chrono::nanoseconds age =
      std::chrono::seconds(now.tv_sec - facts.st_mtim.tv_sec) +
      std::chrono::nanoseconds(now.tv_nsec - facts.st_mtim.tv_nsec);
  return std::max(age, std::chrono::nanoseconds(0));
}

/// Removes sockets on which nobody listens. A process that is stopped inside the folder's lock
/// makes each removal wait; after the first slow one the next caller sweeps the rest.
class Sweeper {
 public:
  /// In a folder of another user nothing is removed: root looks, and no more.
  explicit Sweeper(const std::string& root) {
    struct stat facts{};
    locked_out_ = ::stat(root.c_str(), &facts) != 0 || facts.st_uid != ::geteuid();
  }
  void sweep(const Found& found) {
    if (locked_out_) return;
    const Deadline quickly = Deadline::after(kQuickSweep);
    sweep_if_stale(found.folder, without_suffix(found.file));
    locked_out_ = quickly.passed();
  }
  /// Of ranks that were killed while their group formed: docs/formats/group.md.
  void sweep_groups(const std::string& root) {
    if (!locked_out_) sweep_all_stale(root + "/groups", Deadline::after(kQuickSweep));
  }

 private:
  bool locked_out_ = false;
};

// Asks the next channels, at most kTogether. One that cannot be asked (too many are asking, no
// descriptor left) is listed all the same.
void ask(std::span<const Found> asked, Sweeper& sweeper, std::vector<ChannelStatus>& into) {
  std::vector<Inquiry> inquiries;
  for (const Found& found : asked) {
    bool stale = false;
    auto socket = connect_to(found.folder, found.file, &stale);
    if (stale) sweeper.sweep(found);
    if (!socket && socket.error().code == Code::not_found) continue;
    ChannelStatus status;
    status.name = found.name;
    status.pipeline = found.pipeline;
    status.age = age_of(found);
    if (socket) {
      inquiries.emplace_back(std::move(status), std::move(*socket));
    } else {
      status.silence = socket.error().message;
      into.push_back(std::move(status));
    }
  }
  inquire(inquiries, Deadline::after(kAnswerTime));
  for (Inquiry& inquiry : inquiries) into.push_back(std::move(inquiry).finish());
}

}  // namespace

Result<std::vector<ChannelStatus>> list_channels(std::string_view directory) {
  return guarded([&]() -> Result<std::vector<ChannelStatus>> {
    std::vector<ChannelStatus> channels;
    auto existing = existing_channel_directory(directory);
    if (!existing && existing.error().code == Code::not_found) return channels;  // nobody was here
    GANTRY_ASSIGN(const std::string root, std::move(existing));
    GANTRY_ASSIGN(const std::vector<Found> found, find_all(root));
    Sweeper sweeper(root);
    sweeper.sweep_groups(root);
    for (std::size_t done = 0; done < found.size(); done += kTogether)
      ask(std::span(found).subspan(done, std::min(kTogether, found.size() - done)), sweeper,
          channels);
    std::ranges::sort(channels, {}, &ChannelStatus::name);
    return channels;
  });
}

}  // namespace gantry
