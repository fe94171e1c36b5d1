#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <map>
#include <set>

#include "core/base/assert.hpp"
#include "core/base/wait.hpp"
#include "core/trace/ring_files.hpp"
#include "core/trace/tracer.hpp"

namespace gantry::trace {
namespace {

constexpr int kSettleMs = 100;  // what was sent before the end is received meanwhile
constexpr std::uint64_t kHourNs = 3'600'000'000'000;
constexpr std::uint64_t kMostKept = (Bytes{1} << 30) / sizeof(Event);  // of all rings together

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

constexpr const char* kNewControl = ".control";

/// What recordings and processes make there, and nothing else: somebody may have called a folder of
/// their own so.
bool is_ours(int folder, const std::string& name) {
  struct stat facts{};
  if (::fstatat(folder, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) return false;
  const bool is_cut_off = facts.st_size <= static_cast<off_t>(kNoRoomBytes);
  if (!S_ISREG(facts.st_mode) || ((facts.st_mode & 07777) != kFileMode && !is_cut_off))
    return false;
  return name == kControlFile || name == kNewControl || owner_of(name).has_value();
}

void remove_ours(int folder) {
  for (const std::string& name : files_in(folder))
    if (is_ours(folder, name)) ::unlinkat(folder, name.c_str(), 0);
}

Result<void> write_control(const Fd& folder, const std::string& path, const Control& control) {
  ::unlinkat(folder.get(), kNewControl, 0);  // of one that was killed
  const Fd file(
      ::openat(folder.get(), kNewControl, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode));
  const auto written = file ? ::write(file.get(), &control, sizeof control) : -1;
  if (written == sizeof control &&
      ::renameat(folder.get(), kNewControl, folder.get(), kControlFile) == 0)
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
  RingFiles rings{};
  bool is_member = false;  // of a Family: it may go

  void remove() const noexcept;
};

void Place::remove() const noexcept {
  if (!folder) return;
  static_cast<void>(guarded([this]() -> Result<void> {
    remove_ours(folder.get());
    ::rmdir(path.c_str());
    return {};
  }));
}

/// Directories that come and go: PATH/PREFIX*.
struct Family {
  std::string path;  // with the last slash
  std::string prefix;
  Fd folder;
  std::set<std::string> met{};
};

Family family_of(std::string_view pattern) {
  const auto slash = pattern.rfind('/');
  const auto name = slash == std::string_view::npos ? 0 : slash + 1;
  Family family{std::string(pattern.substr(0, name)),
                std::string(pattern.substr(name, pattern.size() - name - 1)),
                {}};
  family.folder = Fd(
      ::open(family.path.empty() ? "." : family.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return family;
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
  Place place{directory + "/" + kFolder, {}, {}, false};
  for (int attempt = 0; attempt < kTries; ++attempt) {
    if (::mkdir(place.path.c_str(), 0700) != 0 && errno != EEXIST)
      return fail_errno(place.path, errno, "name a runtime directory that there is");
    auto folder = open_trace_folder(directory);
    if (!folder && folder.error().code == Code::not_found) continue;
    if (!folder) return tl::unexpected(std::move(folder).error());
    if (::flock(folder->get(), LOCK_EX | LOCK_NB) != 0) return busy(directory, *folder);
    if (!is_still(*folder, place.path)) continue;
    place.folder = std::move(*folder);
    remove_ours(place.folder.get());  // of one that was killed
    if (const auto others = files_in(place.folder.get()); !others.empty())
      return fail(Code::invalid_argument,
                  fmt::format("{}: '{}' lies there, which no recording has made", place.path,
                              others.front()),
                  "remove it, or name another runtime directory");
    return place;
  }
  return busy(directory, {});
}

/// Whether an end has its name there. A run that records itself has the folder by then.
bool has_ends(const std::string& directory) {
  const Fd listed(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return std::ranges::any_of(files_in(listed.get()), [&](const std::string& name) {
    struct stat facts{};
    return ::fstatat(listed.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISSOCK(facts.st_mode);
  });
}

tl::unexpected<Error> removed(const Place& place) {
  return fail(Code::not_found,
              place.path + ": somebody removed it while a trace was recorded there",
              "record again, and leave that folder to the recording until it ends");
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
  std::vector<Family> families;
  std::vector<std::string> notes;
  Control control;
  ClockPair start;
  std::uint64_t from_ns = 0;
  std::map<RingOwner, Seen> processes;
  std::uint64_t room = kMostKept;

  ~Impl() {
    for (const Place& place : places) place.remove();
  }

  [[nodiscard]] Result<void> renew();
  void look_for_places();
  void take_member(const std::string& directory);
  [[nodiscard]] Result<void> check_places();
  void look(bool is_last);
  void look_for_processes(const std::vector<std::string>& files);
  void note_ends();
  void take(const RingOwner& owner, DecodedRing ring, Trace& into);
  void finish(const TimeScale& time, Trace& into);
  void list_processes(Trace& into);
};

// Each member once, when it has ends, whatever comes of it.
void Recording::Impl::look_for_places() {
  for (Family& family : families)
    for (const std::string& name : files_in(family.folder.get())) {
      const std::string directory = family.path + name;
      if (!name.starts_with(family.prefix) || family.met.contains(name)) continue;
      if (!has_ends(directory)) continue;
      family.met.insert(name);
      take_member(directory);
    }
}

void Recording::Impl::take_member(const std::string& directory) {
  auto place = take_place(directory);
  auto written = place ? write_control(place->folder, place->path, control) : Result<void>();
  if (!place) written = tl::unexpected(place.error());
  if (!written && place) place->remove();
  if (!written) return notes.push_back(to_string(written.error()));
  place->is_member = true;
  places.push_back(*std::move(place));
}

// A run that ends takes its folder along; what is still unread is in the files that are open.
Result<void> Recording::Impl::check_places() {
  for (Place& place : places) {
    if (!place.folder || is_still(place.folder, place.path)) continue;
    if (!place.is_member) return removed(place);
    place.rings.drain(place.folder.get(), {}, control.run, true, room);
    place.rings.close();
    place.folder.reset();
  }
  return {};
}

Result<void> Recording::Impl::renew() {
  const std::uint64_t patience =
      static_cast<std::uint64_t>(std::chrono::nanoseconds(Recording::kPatience).count());
  const std::uint64_t now = monotonic_ns();
  if (control.until_ns > now + patience / 2) return {};
  control.until_ns = now + patience;
  for (const Place& place : places) {
    auto written = write_control(place.folder, place.path, control);
    if (!place.is_member) GANTRY_TRY(std::move(written));  // the folder of a member may be gone
  }
  return {};
}

void Recording::Impl::look(bool is_last) {
  for (Place& place : places) {
    if (!place.folder) continue;
    const std::vector<std::string> files = files_in(place.folder.get());
    look_for_processes(files);
    place.rings.drain(place.folder.get(), files, control.run, is_last, room);
  }
  note_ends();
}

void Recording::Impl::look_for_processes(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    const auto owner = owner_of(file);
    if (!owner || processes.contains(*owner)) continue;
    Seen& seen = processes[*owner];
    seen.life = Fd(static_cast<int>(::syscall(SYS_pidfd_open, owner->pid, 0)));
    if (start_time_of(owner->pid) != owner->start_time) seen.life.reset();  // another one
  }
}

void Recording::Impl::note_ends() {
  for (auto& [owner, seen] : processes) {
    if (!seen.life || !is_readable(seen.life.get())) continue;
    seen.ended_ns = monotonic_ns();
    seen.life.reset();
  }
}

void Recording::Impl::take(const RingOwner& owner, DecodedRing ring, Trace& into) {
  Seen& seen = processes[owner];
  seen.name = std::move(ring.process);
  seen.died = seen.died || !ring.track.is_closed;
  for (const Event& event : ring.track.events) seen.last_ns = std::max(seen.last_ns, end_of(event));
  if (ring.open_wait && ring.open_wait->kind == EventKind::wait) {
    Event& wait = *ring.open_wait;
    const std::uint64_t end = seen.ended_ns.value_or(into.until_ns);
    wait.duration_ns = end - std::min(end, wait.begin_ns);
    wait.what += ", not ended";
    ring.track.events.push_back(std::move(wait));
  }
  into.tracks.push_back(std::move(ring.track));
}

void Recording::Impl::finish(const TimeScale& time, Trace& into) {
  for (Place& place : places)
    place.rings.finish(
        control.run, time,
        [&](const RingOwner& owner, DecodedRing ring) { take(owner, std::move(ring), into); },
        [&](const std::string& file, const Error& error) {
          into.notes.push_back(fmt::format("{}/{}: {}", place.path, file, to_string(error)));
        });
  into.notes.insert(into.notes.begin(), notes.begin(), notes.end());
  if (room == 0)
    into.notes.push_back(
        fmt::format("{} events were kept, and no more: record for less time", kMostKept));
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
      if (directory.ends_with('*')) {
        impl->families.push_back(family_of(directory));
        continue;
      }
      GANTRY_ASSIGN(Place place, take_place(directory));
      impl->places.push_back(std::move(place));
    }
    impl->start = ClockPair::now();
    impl->from_ns = monotonic_ns();
    impl->control.events = std::bit_ceil(options.events);
    impl->control.pid = ::getpid();
    impl->control.run = impl->from_ns | 1;  // not 0, and another one each time
    GANTRY_TRY(impl->renew());
    impl->look_for_places();
    return Recording(std::move(impl));
  });
}

Result<void> Recording::keep_up() {
  return guarded([this]() -> Result<void> {
    impl_->look_for_places();
    GANTRY_TRY(impl_->check_places());
    impl_->look(false);
    return impl_->renew();
  });
}

Result<Trace> Recording::finish() {
  GANTRY_ASSERT(impl_ != nullptr);  // once
  return guarded([this]() -> Result<Trace> {
    GANTRY_TRY(impl_->check_places());
    Trace trace;
    trace.from_ns = impl_->from_ns;
    trace.until_ns = monotonic_ns();
    for (const Place& place : impl_->places)
      static_cast<void>(::unlinkat(place.folder.get(), kControlFile, 0));
    ::poll(nullptr, 0, kSettleMs);
    impl_->look(true);
    TimeScale time{impl_->start, ns_per_tick(impl_->start)};
    time.least_ns = trace.from_ns - std::min(trace.from_ns, kHourNs);
    time.most_ns = monotonic_ns() + kHourNs;
    impl_->finish(time, trace);
    impl_->list_processes(trace);
    cut_off(trace.tracks, trace.until_ns);
    impl_.reset();
    return trace;
  });
}

}  // namespace gantry::trace
