#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <charconv>
#include <map>
#include <set>

#include "base/assert.hpp"
#include "trace/tracer.hpp"

namespace gantry::trace {
namespace {

constexpr int kSettleMs = 100;  // what was sent before the end is received meanwhile
constexpr std::uint64_t kHourNs = 3'600'000'000'000;

/// Process and start, of the name of a ring file.
struct Owner {
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;
  friend auto operator<=>(const Owner&, const Owner&) = default;
};

std::optional<Owner> owner_of(std::string_view file) {
  Owner owner;
  const char* const end = file.data() + file.size();
  const auto pid = std::from_chars(file.data(), end, owner.pid);
  if (pid.ec != std::errc() || pid.ptr == end || *pid.ptr != '-' || owner.pid <= 0)
    return std::nullopt;
  const auto start = std::from_chars(pid.ptr + 1, end, owner.start_time);
  if (start.ec != std::errc() || start.ptr == end || *start.ptr != '-') return std::nullopt;
  return owner;
}

std::vector<std::string> files_in(int folder) {
  std::vector<std::string> files;
  DIR* const listed = ::fdopendir(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (listed == nullptr) return files;
  while (const dirent* entry = ::readdir(listed))  // NOLINT(concurrency-mt-unsafe): its own DIR
    if (const std::string_view name = entry->d_name; name != "." && name != "..")
      files.emplace_back(name);
  ::closedir(listed);
  return files;
}

/// Whatever it is, and what lies in it. Links are not followed.
void remove_entry(int folder, const std::string& name) {
  if (::unlinkat(folder, name.c_str(), 0) == 0 ||
      ::unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0)
    return;
  const Fd inner(::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!inner) return;
  for (const std::string& file : files_in(inner.get())) remove_entry(inner.get(), file);
  ::unlinkat(folder, name.c_str(), AT_REMOVEDIR);
}

Result<void> write_control(const Fd& folder, const std::string& path, const Control& control) {
  constexpr const char* kNew = ".control";
  remove_entry(folder.get(), kNew);  // of one that was killed
  const Fd file(::openat(folder.get(), kNew, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400));
  const auto written = file ? ::write(file.get(), &control, sizeof control) : -1;
  if (written == sizeof control && ::renameat(folder.get(), kNew, folder.get(), kControlFile) == 0)
    return {};
  const int why = written >= 0 && written < static_cast<ssize_t>(sizeof control) ? ENOSPC : errno;
  const bool is_room = why == ENOSPC || why == EDQUOT;
  return fail_errno(fmt::format("{}/{}", path, kControlFile), why,
                    is_room ? "make room there, or set GANTRY_DIR to another directory"
                            : "leave that folder to the recording until it ends");
}

/// DIRECTORY/trace while it is ours; nobody else records there.
struct Place {
  std::string path;
  Fd folder;

  void remove() const noexcept;
};

void Place::remove() const noexcept {
  if (!folder) return;
  static_cast<void>(guarded([this]() -> Result<void> {
    for (const std::string& file : files_in(folder.get())) remove_entry(folder.get(), file);
    ::rmdir(path.c_str());
    return {};
  }));
}

bool is_still(const Fd& folder, const std::string& path) {
  struct stat ours{}, there{};
  return ::fstat(folder.get(), &ours) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

tl::unexpected<Error> busy(const std::string& directory, const Fd& folder) {
  const std::int64_t pid = folder ? control_in(folder.get()).pid : 0;
  return fail(Code::busy,
              fmt::format("{}: another trace is being recorded there{}", directory,
                          pid > 0 ? fmt::format(" by process {}", pid) : ""),
              "wait until it ends, or end it");
}

// One that ends removes its folder: whoever opened it meanwhile tries again.
Result<Place> take_place(const std::string& directory) {
  constexpr int kTries = 100;
  Place place{directory + "/" + kFolder, {}};
  for (int attempt = 0; attempt < kTries; ++attempt) {
    if (::mkdir(place.path.c_str(), 0700) != 0 && errno != EEXIST)
      return fail_errno(place.path, errno, "name a runtime directory that there is");
    auto folder = open_trace_folder(directory);
    if (!folder && folder.error().code == Code::not_found) continue;
    if (!folder) return tl::unexpected(std::move(folder).error());
    if (::flock(folder->get(), LOCK_EX | LOCK_NB) != 0) return busy(directory, *folder);
    if (!is_still(*folder, place.path)) continue;
    place.folder = std::move(*folder);
    for (const std::string& file : files_in(place.folder.get()))  // of one that was killed
      remove_entry(place.folder.get(), file);
    return place;
  }
  return busy(directory, {});
}

/// Errors: `not_found`: somebody removed it.
Result<void> check_there(const Place& place) {
  if (is_still(place.folder, place.path)) return {};
  return fail(Code::not_found,
              place.path + ": somebody removed it while a trace was recorded there",
              "record again, and leave that folder to the recording until it ends");
}

Result<std::vector<std::byte>> read_all(int file, const std::string& name) {
  struct stat facts{};
  if (::fstat(file, &facts) != 0) return fail_errno(name);
  if (!S_ISREG(facts.st_mode) || static_cast<Bytes>(facts.st_size) > kMostRingBytes)
    return fail(Code::invalid_argument, "it is no ring of events");
  std::vector<std::byte> bytes(static_cast<std::size_t>(facts.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto got =
        ::pread(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0) return fail_errno(name);
    if (got == 0) break;  // it became shorter
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

Result<DecodedRing> read_ring(int folder, const std::string& name, const TimeScale& time) {
  const Fd file(::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return fail_errno(name);
  GANTRY_ASSIGN(const std::vector<std::byte> bytes, read_all(file.get(), name));
  std::uint64_t head = 0;
  const auto got = ::pread(file.get(), &head, sizeof head, offsetof(RingHeader, head));
  return decode_ring(bytes, got == sizeof head ? head : ~std::uint64_t{0}, time);
}

std::uint64_t end_of(const Event& event) noexcept {
  return event.begin_ns + event.duration_ns;
}

/// What began after the end goes, and with a message's sending its being received.
void cut_off(std::vector<Track>& tracks, std::uint64_t until_ns) {
  std::set<MessageId> late;
  for (const Track& track : tracks)
    for (const Event& event : track.events)
      if (event.kind == EventKind::send && event.begin_ns > until_ns) late.insert(event.message);
  const auto goes = [&](const Event& event) {
    const bool ends_a_way = event.kind == EventKind::receive || event.kind == EventKind::release;
    return ends_a_way ? late.contains(event.message) : event.begin_ns > until_ns;
  };
  for (Track& track : tracks) std::erase_if(track.events, goes);
}

}  // namespace

struct GANTRY_LOCAL Recording::Impl {
  struct Seen {
    Fd life;  // a pidfd
    std::string name;
    std::optional<std::uint64_t> ended_ns;
    bool died = false;
    std::uint64_t last_ns = 0;  // its newest event
  };

  std::vector<Place> places;
  Control control;
  ClockPair start;
  std::uint64_t from_ns = 0;
  std::map<Owner, Seen> processes;

  ~Impl() {
    for (const Place& place : places) place.remove();
  }

  [[nodiscard]] Result<void> renew();
  void look_for_processes();
  void note_ends();
  void read(const Place& place, const TimeScale& time, Trace& into);
  void list_processes(Trace& into);
};

Result<void> Recording::Impl::renew() {
  const std::uint64_t patience =
      static_cast<std::uint64_t>(std::chrono::nanoseconds(Recording::kPatience).count());
  const std::uint64_t now = monotonic_ns();
  if (control.until_ns > now + patience / 2) return {};
  control.until_ns = now + patience;
  for (const Place& place : places) GANTRY_TRY(write_control(place.folder, place.path, control));
  return {};
}

void Recording::Impl::look_for_processes() {
  for (const Place& place : places)
    for (const std::string& file : files_in(place.folder.get())) {
      const auto owner = owner_of(file);
      if (!owner || processes.contains(*owner)) continue;
      Seen& seen = processes[*owner];
      seen.life = Fd(static_cast<int>(::syscall(SYS_pidfd_open, owner->pid, 0)));
      if (start_time_of(owner->pid) != owner->start_time) seen.life.reset();  // another one
    }
}

void Recording::Impl::note_ends() {
  for (auto& [owner, seen] : processes) {
    pollfd life{seen.life.get(), POLLIN, 0};
    if (!seen.life || ::poll(&life, 1, 0) != 1) continue;
    seen.ended_ns = monotonic_ns();
    seen.life.reset();
  }
}

void Recording::Impl::read(const Place& place, const TimeScale& time, Trace& into) {
  for (const std::string& file : files_in(place.folder.get())) {
    const auto owner = owner_of(file);
    if (!owner) continue;
    auto ring = read_ring(place.folder.get(), file, time);
    if (ring && ring->run != control.run) continue;  // of a recording that was killed
    if (ring && (ring->start_time != owner->start_time || ring->track.pid != owner->pid))
      ring = fail(Code::invalid_argument, "it is of another process than its name says");
    if (!ring) {
      into.notes.push_back(fmt::format("{}/{}: {}", place.path, file, to_string(ring.error())));
      continue;
    }
    Seen& seen = processes[*owner];
    seen.name = std::move(ring->process);
    seen.died = seen.died || !ring->track.is_closed;
    for (const Event& event : ring->track.events)
      seen.last_ns = std::max(seen.last_ns, end_of(event));
    into.tracks.push_back(std::move(ring->track));
  }
}

// One whose end was not seen, since it came and went between two looks, ended with its last event.
void Recording::Impl::list_processes(Trace& into) {
  for (auto& [owner, seen] : processes) {
    if (!seen.ended_ns && start_time_of(owner.pid) != owner.start_time)
      seen.ended_ns = std::max(seen.last_ns, from_ns);
    into.processes.push_back(
        {owner.pid, seen.name, seen.ended_ns, seen.ended_ns.has_value() && seen.died});
  }
}

Recording::Recording(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Recording::Recording(Recording&&) noexcept = default;
Recording& Recording::operator=(Recording&&) noexcept = default;
Recording::~Recording() = default;

Result<Recording> Recording::start(const std::vector<std::string>& directories,
                                   const RecordingOptions& options) {
  return guarded([&]() -> Result<Recording> {
    if (options.events == 0 || options.events > RecordingOptions::kMostEvents)
      return fail(Code::invalid_argument,
                  fmt::format("rings of {} events; 1 to {} are possible", options.events,
                              RecordingOptions::kMostEvents));
    auto impl = std::make_unique<Impl>();
    for (const std::string& directory : directories) {
      GANTRY_ASSIGN(Place place, take_place(directory));
      impl->places.push_back(std::move(place));
    }
    impl->start = ClockPair::now();
    impl->from_ns = monotonic_ns();
    impl->control.events = std::bit_ceil(options.events);
    impl->control.pid = ::getpid();
    impl->control.run = impl->from_ns | 1;  // not 0, and another one each time
    GANTRY_TRY(impl->renew());
    return Recording(std::move(impl));
  });
}

Result<void> Recording::keep_up() {
  return guarded([this]() -> Result<void> {
    for (const Place& place : impl_->places) GANTRY_TRY(check_there(place));
    impl_->look_for_processes();
    impl_->note_ends();
    return impl_->renew();
  });
}

Result<Trace> Recording::finish() {
  GANTRY_ASSERT(impl_ != nullptr);  // once
  return guarded([this]() -> Result<Trace> {
    for (const Place& place : impl_->places) GANTRY_TRY(check_there(place));
    Trace trace;
    trace.from_ns = impl_->from_ns;
    trace.until_ns = monotonic_ns();
    for (const Place& place : impl_->places)
      static_cast<void>(::unlinkat(place.folder.get(), kControlFile, 0));
    ::poll(nullptr, 0, kSettleMs);
    impl_->look_for_processes();
    impl_->note_ends();
    TimeScale time{impl_->start, ns_per_tick(impl_->start)};
    time.least_ns = trace.from_ns - std::min(trace.from_ns, kHourNs);
    time.most_ns = monotonic_ns() + kHourNs;
    for (const Place& place : impl_->places) impl_->read(place, time, trace);
    impl_->list_processes(trace);
    cut_off(trace.tracks, trace.until_ns);
    impl_.reset();
    return trace;
  });
}

}  // namespace gantry::trace
