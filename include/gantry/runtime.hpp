#pragma once  // gantry/runtime.hpp: opens engines, devices, channels; states of channels; traces.

#include <array>
#include <gantry/call.hpp>
#include <gantry/channel.hpp>
#include <gantry/engine.hpp>
#include <gantry/memory.hpp>
#include <gantry/types.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gantry {

// ---- processes -----------------------------------------------------------------------------

/// State of an end's process, as the kernel reports it.
enum class ProcessState : std::uint8_t {
  unknown,  ///< Not visible: the process is in another PID namespace, or there is no /proc.
  running,  ///< It runs, or sleeps by its own choice.
  stopped,  ///< SIGSTOP, Ctrl-Z or a debugger stopped it.
  zombie,   ///< It has ended, but its parent has not collected its status.
  gone,     ///< No process has that number any more.
};
[[nodiscard]] GANTRY_API std::string_view to_string(ProcessState state) noexcept;
/// The state that the kernel reports now.
[[nodiscard]] GANTRY_API ProcessState process_state(int pid) noexcept;

// ---- one channel ---------------------------------------------------------------------------

/// A message that a consumer still needs.
struct HeldSlot {
  std::uint64_t message = 0;       ///< Number of the message in the channel.
  Bytes bytes = 0;                 ///< Size of its payload.
  std::chrono::nanoseconds age{};  ///< Time since it was published.
  /// True: the consumer has received it; false: it is still in the consumer's ring.
  bool taken = false;
};

/// One consumer, as its producer or inbox reports it.
struct GANTRY_API ConsumerStatus {
  /// For each count of `handoffs` except the last: upper bound of the times, in nanoseconds.
  static constexpr std::array<std::uint64_t, 16> kHandoffBoundsNs{
      300,         1'000,         3'000,         10'000,        30'000,     100'000,      //
      300'000,     1'000'000,     3'000'000,     10'000'000,    30'000'000, 100'000'000,  //
      300'000'000, 1'000'000'000, 3'000'000'000, 10'000'000'000};

  int pid = 0;       ///< Process number as the producer sees it; 0: not visible to the producer.
  EndName who{};     ///< Name that the consumer gives itself.
  unsigned uid = 0;  ///< The user that its process runs as.
  ProcessState state = ProcessState::unknown;  ///< State of its process at the time of the query.
  SlowConsumer policy = SlowConsumer::block;   ///< Requested policy: ConsumerOptions::when_slow.
  unsigned depth = 0;                          ///< Limit of its unreleased messages.
  std::uint64_t unread = 0;                    ///< Messages published to it that it has not taken.
  std::uint64_t dropped = 0;  ///< Messages that it did not get or that were taken back from it.
  bool is_cut = false;        ///< The producer has disconnected it.
  /// All credits are in use, and would not be without this consumer (or without all blocking
  /// consumers, if they hold the credits together).
  bool holds_up = false;
  std::chrono::nanoseconds joined{};  ///< Time since it joined.
  /// Time since it last took a message; if it has taken none, since it joined.
  std::chrono::nanoseconds idle{};
  std::vector<HeldSlot> held;  ///< Oldest first.
  MetricsReport metrics;       ///< Counters of the consumer itself.
  /// Counts of its hand-offs by their time (see MetricsReport::handoff_p50_ns); near a bound, the
  /// time may be wrong by an eighth. Counts never fall.
  std::array<std::uint64_t, kHandoffBoundsNs.size() + 1> handoffs{};

  /// Payload bytes of the messages that it has not released.
  [[nodiscard]] Bytes held_bytes() const noexcept;
  /// True if it is stopped, or if it holds up the producer and has taken no message for
  /// kStuckAfter.
  [[nodiscard]] bool is_stuck() const noexcept;
  static constexpr std::chrono::seconds kStuckAfter{1};  ///< The limit of is_stuck().
};

/// A consumer that has left but still holds messages, while its process lives on.
struct DepartedStatus {
  int pid = 0;                                 ///< Process number as in ConsumerStatus::pid.
  ProcessState state = ProcessState::unknown;  ///< State of its process at the time of the query.
  unsigned messages = 0;                       ///< Messages that it has not released.
  Bytes bytes = 0;                             ///< Payload bytes of these messages.
  std::chrono::nanoseconds age{};              ///< Time since the oldest of them was published.
  EndName who{};                               ///< Name that the consumer gave itself.
};

/// One of the producers connected to an inbox.
struct SenderStatus {
  int pid = 0;                                 ///< 0: the producer lives in another PID namespace.
  unsigned uid = 0;                            ///< The user that its process runs as.
  ProcessState state = ProcessState::unknown;  ///< State of its process at the time of the query.
  std::chrono::nanoseconds joined{};           ///< Time since it connected.
  std::chrono::nanoseconds
      idle{};  ///< Time since its last message was received; if there is none, since it connected.
  std::uint64_t messages = 0;  ///< Messages received from it.
  Bytes bytes = 0;             ///< Payload bytes of these messages.
  EndName who{};               ///< Name that the producer gives itself.
  unsigned credits = 0;        ///< Limit of its unreleased messages.
  std::uint64_t unread = 0;    ///< Messages that it published and the receiver has not taken.
  std::uint64_t held = 0;      ///< Messages that the receiver holds and that use a credit.
  /// It sleeps until it gets a credit back, or until all its messages are taken.
  bool waits = false;
};

/// How the newest engine-copied payload was sent.
struct PathStatus {
  /// Size of the payload. 0: no such payload yet; the other fields are then unused.
  Bytes bytes = 0;
  Bytes moved = 0;                  ///< Size of the last move: a chunk, or the whole payload.
  SendMode mode = SendMode::whole;  ///< Mode that was chosen for the payload.
  CopyEngine engine = CopyEngine::inline_;  ///< The engine that executed the last move.
  CacheUse cache = CacheUse::automatic;     ///< The kind of stores that was used.
  std::string why;  ///< Explanation::text() for such a move, made at the time of the query.
};

/// State of a channel, as `gantry ls` gets it.
struct GANTRY_API ChannelStatus {
  /// Name of the channel; from list_channels(), with "run-…/" in front if a running pipeline made
  /// it.
  std::string name;
  /// Name of the pipeline, if `gantry run` made the channel; otherwise empty.
  std::string pipeline{};
  int producer_pid = 0;                                 ///< 0: unknown.
  EndName producer_who{};                               ///< Name that the producer gives itself.
  unsigned producer_uid = 0;                            ///< User of its process, if known.
  ProcessState producer_state = ProcessState::unknown;  ///< `unknown` for an inbox.
  /// False: the channel did not answer; only `age` and `silence` of the fields below are set.
  bool answered = false;
  std::string silence;             ///< Reason for the missing answer; empty if it has answered.
  std::chrono::nanoseconds age{};  ///< Time since the channel was opened.

  /// True if a receiver owns the name and any number of producers connect to it (an inbox or a
  /// server, gantry/call.hpp). Then `consumers` holds that receiver, producer_pid is 0, `senders`
  /// are the producers, and `producer` counts the messages received from all of them. Fields that
  /// describe a producer's slots, memory and path are not set.
  bool is_inbox = false;
  bool is_server = false;      ///< For an inbox: it is a Server's, and its senders are clients.
  unsigned senders_limit = 0;  ///< InboxOptions::producers, or ServerOptions::clients.
  std::vector<SenderStatus> senders;  ///< At most 1024 are listed.

  SendMode mode = SendMode::automatic;  ///< PayloadOptions::mode.
  bool ended = false;                   ///< The producer has ended the stream.
  unsigned slots = 0;                   ///< Total number of credits.
  unsigned slots_held = 0;              ///< Slots in use, for any reason; may exceed `slots`.
  unsigned slots_charged = 0;           ///< Credits in use, also by small messages without a slot.
  unsigned slots_sending = 0;           ///< Slots that the producer is filling or has lent.
  Bytes bytes_in_flight = 0;            ///< Limit in bytes; 0: only the pool's budget limits it.
  Bytes bytes_charged = 0;              ///< Payload bytes in the slots that count as credits.
  unsigned consumers_limit = 0;         ///< ProducerOptions::consumers.
  unsigned history_limit = 0;           ///< ProducerOptions::history.
  unsigned history = 0;                 ///< Messages kept for late joiners now.
  std::uint64_t backlog = 0;            ///< Messages that wait for a first consumer.
  Bytes slab_bytes = 0;                 ///< Payload memory taken from the system.
  Bytes live_bytes = 0;                 ///< Part of slab_bytes that is in blocks.
  Bytes budget_bytes = 0;               ///< Upper limit of slab_bytes.
  Bytes peak_bytes = 0;                 ///< Largest value of live_bytes so far.
  /// Present registrations of the pool's registrars, which may also serve other memory.
  std::uint64_t registrations = 0;
  std::uint64_t refused_registrations = 0;  ///< Slabs of the pool that a registrar refused.
  std::string engine;                       ///< Name of the engine that copies for send().
  PathStatus path;                          ///< How the newest payload was sent.
  MetricsReport producer;                   ///< Counters of the sending end.
  std::vector<ConsumerStatus> consumers;    ///< Consumers that are joined now.
  std::vector<DepartedStatus> departed;     ///< Consumers that left while holding messages.

  /// Name for people, equal in each run of a pipeline: "vision/frames.0.1".
  [[nodiscard]] std::string shown_name() const;
  /// Number of published messages that the slowest consumer has not taken.
  [[nodiscard]] std::uint64_t depth() const noexcept;
  /// Remarks for people: ends that are stuck and for how long, ends that do not answer, consumers
  /// that left while holding messages. One line each, without a full stop.
  [[nodiscard]] std::vector<std::string> notes() const;
};

/// True if the name was generated by the Python package: for a queue of work without a name, or a
/// pipe. Lists of names for people omit such names.
[[nodiscard]] GANTRY_API bool is_made_up_name(std::string_view name) noexcept;

/// Lists every live channel below `directory`, including those of running pipelines (as
/// "run-…/name"). Removes sockets whose producer is gone, in a folder of this user. Root may list
/// any user's folder. Asks many channels at a time; a channel that does not answer within a second
/// is listed with the facts that are known without its answer.
[[nodiscard]] GANTRY_API Result<std::vector<ChannelStatus>> list_channels(
    std::string_view directory);

// ---- an end explains itself ----------------------------------------------------------------

/// State of a sending end, with reasons: Producer::explain().
struct GANTRY_API ChannelExplanation {
  ChannelStatus status;              ///< State as for `gantry ls`.
  Bytes payload = 0;                 ///< Size given to explain().
  SendMode mode = SendMode::whole;   ///< Mode that send() would use.
  std::vector<std::string> because;  ///< Reasons for that mode.
  Explanation path;  ///< The engine that would copy the payload; no candidates if none would.
  /// Reasons why a send() would wait now; empty: it would not wait.
  std::vector<std::string> waits;
  /// For another host's channel: the RemotePath in use, and why. Otherwise empty.
  std::string link;

  /// The explanation for people, several lines.
  [[nodiscard]] std::string text() const;
};

/// Registrations of the producer's memory with one of a consumer's registrars.
struct ReceivedRegistration {
  std::string registrar;      ///< Name of the registrar.
  std::uint64_t slabs = 0;    ///< Number of slabs registered now.
  Bytes bytes = 0;            ///< Size of these slabs.
  std::uint64_t refused = 0;  ///< Slabs that could not be registered.
  std::string why;            ///< Reason for one of the refusals; otherwise empty.
};

/// State of a receiving end, with reasons: Consumer::explain().
struct GANTRY_API ConsumerExplanation {
  std::string name;      ///< Name of the channel.
  int producer_pid = 0;  ///< 0: the producer lives in another PID namespace.
  ProcessState producer_state = ProcessState::unknown;  ///< `unknown` without a pid.
  SlowConsumer policy = SlowConsumer::block;            ///< ConsumerOptions::when_slow.
  /// Largest number of messages that the consumer may hold unreleased, as its producer reports.
  unsigned depth = 0;
  std::uint64_t unread = 0;  ///< Messages published to this end that it has not taken.
  /// Messages taken back before this end took them, as far as the end has seen.
  std::uint64_t dropped = 0;
  bool landing = false;  ///< The next message is taken but has not landed whole.
  /// The producer left or died; its published messages can still be received.
  bool producer_gone = false;
  bool ended = false;  ///< The stream ends with the unread messages.
  /// The producer waits for a credit, or for a message that it has forwarded.
  bool producer_sleeps = false;
  std::vector<HeldSlot> held;  ///< Unreleased messages, oldest first.
  /// Further unreleased messages that were copied out and do not hold a slot.
  std::size_t copies_held = 0;
  Bytes gathered_bytes = 0;  ///< Private memory of streamed messages that were received whole.
  Bytes mapped_bytes = 0;    ///< Mapped memory of the producer.
  std::chrono::nanoseconds spin{};  ///< Present polling time of a wait before it sleeps.
  std::string broken;     ///< Reason why this end no longer trusts its producer; otherwise empty.
  MetricsReport metrics;  ///< Counters of this end.
  std::vector<ReceivedRegistration> registrars;  ///< One for each of ConsumerOptions::registrars.
  /// For another host's channel: the RemotePath in use, and why. Otherwise empty.
  std::string link;

  /// The explanation for people, several lines.
  [[nodiscard]] std::string text() const;
};

// The runtime, which probes the machine and opens engines, devices and channels.

class Device;  // in <gantry/device.hpp>

// ---- the machine ---------------------------------------------------------------------------

/// One cache of a CPU.
struct CacheFacts {
  unsigned level = 0;  ///< 1: next to a core.
  Bytes bytes = 0;     ///< Size of one cache.
  unsigned count = 0;  ///< Number of such caches in the machine.
};

/// Huge pages of one size on this machine.
struct HugePageFacts {
  Bytes page_bytes = 0;     ///< Size of a page.
  std::uint64_t total = 0;  ///< Pages that are reserved.
  std::uint64_t free = 0;   ///< Reserved pages that are unused.
};

/// Hardware and limits of this machine.
struct MachineFacts {
  std::string cpu_model;           ///< Empty if unknown.
  unsigned cpus = 0;               ///< CPUs that this process may use.
  unsigned cpus_online = 0;        ///< CPUs of the machine.
  double cpu_quota = 0;            ///< Limit of the control group, in CPUs; 0: none.
  unsigned numa_nodes = 0;         ///< 0 if unknown.
  std::vector<CacheFacts> caches;  ///< Data caches, by level.
  Bytes memory_bytes = 0;       ///< Memory of the machine, or the control group's limit if smaller.
  Bytes memory_free_bytes = 0;  ///< Memory available now.
  Bytes memlock_limit_bytes = 0;          ///< Soft limit; the largest value means unlimited.
  std::vector<HugePageFacts> huge_pages;  ///< One entry per page size, smallest first.
  std::string transparent_huge_pages;     ///< always, madvise or never.
  /// Setting for shared memory: as the kernel names it.
  std::string transparent_huge_pages_shared;
  std::string kernel;  ///< Name and release: "Linux 6.8.0".
};

/// Asks the kernel and hwloc; takes some milliseconds.
[[nodiscard]] GANTRY_API MachineFacts probe_machine();

/// Newer kernel features that Gantry uses: whether this process may use each, and the loss without
/// it. See docs/platforms.md.
[[nodiscard]] GANTRY_API std::vector<EngineStatus> kernel_features();

// ---- runtime -------------------------------------------------------------------------------

/// Options of a runtime; all have defaults.
struct RuntimeOptions {
  std::string directory = {};  ///< Empty: by the rule of channel_directory().
  /// The engine that copies for send(). Empty: the value of $GANTRY_ENGINE (NAME or require:NAME);
  /// if that is not set, "auto". An unknown name is always an error.
  std::string engine = {};
  bool require_engine = false;  ///< An unusable engine is an error; if false, "auto" replaces it.
  bool notices = true;          ///< EndOptions::notices of each end that the runtime opens.
};

/// The calibration that "auto" uses, and its file.
struct CalibrationStatus {
  Calibration calibration;  ///< Measured or default values.
  std::string path;         ///< Path of its file; empty: there is no place for one.
  bool kept = false;        ///< The file holds the calibration for later processes.
  /// Reason why it is not kept, or why an existing file was refused; may be empty.
  std::string note;
};

/// Duration of a calibration, and a callback for its progress.
struct CalibrateOptions {
  bool quick = false;  ///< Take less than a second instead of up to 20 seconds.
  /// Called with the next step and the finished fraction, 0 to 1. Return false to stop; then no
  /// result is kept.
  std::function<bool(std::string_view step, double done)> on_step = {};
};

/// Probes the machine, builds the engines, and opens channels that use them. Cheap to move. The
/// ends that it opened may outlive it.
class GANTRY_API Runtime {
 public:
  /// Makes a runtime. Errors: `invalid_argument`; those of the engine that the options name.
  [[nodiscard]] static Result<Runtime> create(const RuntimeOptions& options = {});
  Runtime(Runtime&&) noexcept;
  Runtime& operator=(Runtime&&) noexcept;
  ~Runtime();

  /// Takes the name; consumers may come at any later time. Errors: as Producer::open().
  [[nodiscard]] Result<Producer> producer(std::string_view name, ProducerOptions options = {});
  /// Joins the channel, and waits for its producer to appear. Errors: as Consumer::open().
  [[nodiscard]] Result<Consumer> consumer(std::string_view name, ConsumerOptions options = {},
                                          Deadline deadline = Deadline::never());
  /// Opens a receiving end to which many producers connect(). Errors: as Inbox::open().
  [[nodiscard]] Result<Inbox> inbox(std::string_view name, InboxOptions options = {});
  /// Connects to an inbox. Errors: as Producer::connect().
  [[nodiscard]] Result<Producer> connect(std::string_view inbox, ProducerOptions options = {},
                                         Deadline deadline = Deadline::never());
  /// Opens a server for calls with replies. Errors: as Server::open().
  [[nodiscard]] Result<Server> server(std::string_view name, ServerOptions options = {});
  /// Connects to a server. Errors: as Client::connect().
  [[nodiscard]] Result<Client> client(std::string_view server, ClientOptions options = {},
                                      Deadline deadline = Deadline::never());

  /// Returns the engine of that name ("inline", "thread", "auto"; with the component device "dsa").
  /// Errors: `not_found`, `unsupported`.
  [[nodiscard]] Result<std::shared_ptr<Engine>> engine(std::string_view name) const;
  /// The engine that copies for send(): RuntimeOptions::engine. Null on a moved-from runtime.
  [[nodiscard]] std::shared_ptr<Engine> default_engine() const;
  /// All engines; unusable ones with the reason.
  [[nodiscard]] std::vector<EngineStatus> engines() const;

  /// Opens a device: "cpu", "opencl" (its first device), "opencl:1". Jobs on the device read files
  /// by io_uring if that works. Errors: `not_found` (with the existing names), `unsupported` (with
  /// the software to install), `timed_out` (the device does not answer), `system`.
  [[nodiscard]] Result<std::shared_ptr<Device>> open_device(std::string_view name) const;
  /// Lists each device; for a kind without devices, the reason. Loads the drivers, which takes some
  /// tenths of a second.
  [[nodiscard]] std::vector<EngineStatus> devices() const;

  /// The calibration in use. If no calibration fits the machine, "auto" makes a quick one at the
  /// first move of 1 MiB or more, unless $GANTRY_CALIBRATE is `off`.
  [[nodiscard]] CalibrationStatus calibration() const;
  /// Measures all usable engines, keeps the result, and makes "auto" use it. The engines are in use
  /// meanwhile. A result that cannot be kept is still used: see CalibrationStatus::note. Errors:
  /// `busy` (another process is calibrating), `interrupted`, `out_of_memory`.
  [[nodiscard]] Result<CalibrationStatus> calibrate(const CalibrateOptions& options = {});

 private:
  struct Impl;
  explicit Runtime(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
};

// ---- registrars -----------------------------------------------------------------------------

/// The kind of device to which a registrar makes memory known.
enum class RegistrarKind {
  page_lock,  ///< mlock(): memory that stays resident.
  uring,      ///< io_uring's fixed buffers.
  fabric,     ///< Memory regions of libfabric.
  cuda,       ///< Host memory that CUDA devices reach directly.
};
[[nodiscard]] GANTRY_API std::string_view to_string(RegistrarKind kind) noexcept;

/// Parameters of a registrar. Each field names its kind of registrar; other kinds ignore it.
struct RegistrarSetup {
  RegistrarOptions limits{};  ///< For every kind.

  /// uring: the ring whose operations will use the buffers. It must not have fixed buffers yet. Its
  /// descriptor is duplicated, and its table is restored when the registrar is destroyed. -1: the
  /// registrar's own ring, which no operation can use; for measurements.
  int ring_descriptor = -1;
  unsigned ring_slots = 1024;  ///< uring: largest number of registrations at a time.

  /// fabric: the `struct fid_domain` whose endpoints will use the memory; it must outlive the
  /// registrar. Null: the registrar's own domain by `fabric_provider`, which no endpoint can use.
  void* fabric_domain = nullptr;
  std::string fabric_provider = "tcp";  ///< fabric: name of libfabric's provider.

  /// cuda: number of the device that registers; every device may use the memory.
  int cuda_device = 0;
};

/// Makes a registrar. Errors: `unsupported`, with the software or setting that is missing; errors
/// of the set-up of that kind.
[[nodiscard]] GANTRY_API Result<std::shared_ptr<Registrar>> make_registrar(
    RegistrarKind kind, const RegistrarSetup& setup = {});

/// Whether a registrar works on this machine.
struct RegistrarStatus {
  std::string name;     ///< "page-lock", "uring", "fabric-tcp", "fabric-shm" or "cuda".
  bool usable = false;  ///< True: a page was registered.
  std::string why;      ///< The means of registration, or the reason why it does not work.
  std::string hint;     ///< How to make it usable; empty if it is usable.
};

/// Tries each kind with a page of memory; tries fabric with each provider that Gantry is tested
/// with. Loads the libraries behind them, which takes some tenths of a second.
[[nodiscard]] GANTRY_API std::vector<RegistrarStatus> probe_registrars();

/// Library version, "MAJOR.MINOR.PATCH".
[[nodiscard]] GANTRY_API std::string_view version() noexcept;

}  // namespace gantry

namespace gantry::trace {

// ---- events of channel ends, links, ranks and device queues, and the program's own spans ------

/// Begins a span without a C++ scope; pass the result to end_span(). 0: no recording is active.
[[nodiscard]] GANTRY_API std::uint64_t begin_span() noexcept;
/// Writes the span into the calling thread's trace. If `began` is 0, does nothing. See Span.
GANTRY_API void end_span(std::uint64_t began, std::string_view name) noexcept;

/// Records the time from its construction to the end of its scope, under the span's name, in the
/// thread's trace. Names are cut after kMostName bytes. Without a recording it takes a few
/// nanoseconds. A recording of the directory that the environment names (see channel_directory())
/// has the spans of every process; a recording of another directory has those of processes with an
/// end of a channel, a group or a Runtime there.
class Span {
 public:
  static constexpr std::size_t kMostName = 31;  ///< Largest number of bytes of a name.
  /// Begins the span.
  explicit Span(std::string_view name) noexcept : began_(begin_span()) {
    if (began_ != 0) size_ = name.copy(name_.data(), name_.size());
  }
  ~Span() {
    if (began_ != 0) end_span(began_, {name_.data(), size_});
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  std::uint64_t began_;  // ticks; 0: no recording is active
  std::size_t size_ = 0;
  std::array<char, kMostName + 1> name_;  // one extra byte, which shows whether a character was cut
};

// ---- recording -----------------------------------------------------------------------------

/// The owner of a track.
enum class EndKind : std::uint8_t {
  producer = 1,  ///< A sending end.
  consumer,      ///< A receiving end of one producer.
  inbox,         ///< A receiving end of many producers, also a server's.
  thread,        ///< A thread with spans.
  rank,          ///< A rank of a group: its steps of a plan.
  link,          ///< An end of a link.
  queue          ///< A queue of a device.
};

/// The kind of an event.
enum class EventKind : std::uint8_t {
  send = 1,   ///< From the call to the end of publishing; for a small message only that end.
  copy,       ///< `what`: the engine.
  publish,    ///< The message became visible.
  receive,    ///< From the call until the caller had the message.
  wait,       ///< A wait for `what`, from `peer` if known.
  release,    ///< The message's memory returned to the sender.
  wake,       ///< `peer` slept and was woken.
  span,       ///< A span of the program's; `what`: its name.
  step,       ///< An operation of a plan; `what`: its verb and place, `number`: its index.
  arrival,    ///< Another rank's step reached this rank; fields as `step`.
  transfer,   ///< A link's transfer; `what`: put or get; at the far end: landed, served.
  control,    ///< A link's control message; `what`: sent or received.
  operation,  ///< On a device's queue; `what`: copy-in, launch of a kernel and so on.
};
[[nodiscard]] GANTRY_API std::string_view to_string(EventKind kind) noexcept;

/// Identifies a message among all processes of the machine. 0: none.
struct MessageId {
  std::uint64_t channel = 0;   ///< One session of one producer.
  std::uint64_t sequence = 0;  ///< MessageInfo::sequence.
  friend auto operator<=>(const MessageId&, const MessageId&) = default;
};

/// One event at one end or in one thread.
struct Event {
  EventKind kind = EventKind::send;  ///< Determines which of the fields below are used.
  std::uint64_t begin_ns = 0;        ///< Beginning, CLOCK_MONOTONIC.
  std::uint64_t duration_ns = 0;     ///< 0 for an instant.
  MessageId message;                 ///< For send, copy, publish, receive and release.
  MessageId cause;                   ///< For send: the message that the thread had received last.
  Bytes bytes = 0;  ///< Bytes of the payload, or those moved by the step, transfer or operation.
  std::uint32_t chunks = 0;  ///< For copy: number of chunks.
  /// Index of a step in its plan; number of a transfer at the end that began it.
  std::uint32_t number = 0;
  std::int32_t peer = 0;  ///< Process number; 0: unknown, or several.
  std::string what;       ///< As EventKind says; otherwise empty.
};

/// Events of one end, one rank or one thread with spans. A full ring overwrites its oldest events.
struct Track {
  EndKind kind = EndKind::producer;  ///< Owner of the track.
  std::string channel;        ///< Name of the channel, thread, rank, link's far end or queue.
  std::int32_t pid = 0;       ///< Number of its process.
  std::uint64_t written = 0;  ///< Events in total.
  std::uint64_t lost = 0;     ///< Events that were overwritten or are incomplete.
  bool is_closed = false;     ///< The owner ended regularly.
  std::vector<Event> events;  ///< In the order of writing.
};

/// A process that has a track.
struct TracedProcess {
  std::int32_t pid = 0;  ///< As in its tracks.
  std::string name;  ///< Name of its stage, if `gantry run` started it; otherwise of its program.
  /// Time at which the kernel reported its end; some ms late.
  std::optional<std::uint64_t> ended_ns;
  bool died = false;  ///< It ended without closing its ends.
};

/// All data of a recording.
struct Trace {
  std::uint64_t from_ns = 0;             ///< Beginning, CLOCK_MONOTONIC, as in events.
  std::uint64_t until_ns = 0;            ///< End of the recording.
  std::vector<TracedProcess> processes;  ///< All processes that were seen.
  std::vector<Track> tracks;             ///< Tracks that could be read.
  std::vector<std::string> notes;        ///< Remarks for people about data that could not be read.
};

/// Capacity of a recording.
struct RecordingOptions {
  static constexpr unsigned kMostEvents = 1U << 20;  ///< Upper limit of `events`.
  unsigned events = 1U << 13;  ///< Events per end, 64 bytes each; rounded up to a power of two.
};

/// Makes the processes of one user record their events in some runtime directories. Running
/// processes notice within kNotice, new ones at once. Needs keep_up() at least every kPatience;
/// otherwise the recording ends, as it does when this process is killed. Move-only; records until
/// finish() or destruction.
class GANTRY_API Recording {
 public:
  /// Time until running processes begin to record.
  static constexpr std::chrono::milliseconds kNotice{600};
  static constexpr std::chrono::seconds kPatience{2};  ///< Longest time between calls of keep_up().

  /// Starts recording. A directory PATH/PREFIX* stands for all directories that begin with
  /// PATH/PREFIX, including later ones. Errors: `busy` when another process records there;
  /// `not_found`, `permission_denied`, `system`.
  [[nodiscard]] static Result<Recording> start(const std::vector<std::string>& directories,
                                               const RecordingOptions& options = {});
  Recording(Recording&&) noexcept;
  Recording& operator=(Recording&&) noexcept;
  ~Recording();

  /// Extends the recording by kPatience, and notes which processes have started and ended. Errors:
  /// `not_found` (the recording's folder was removed); `system`.
  [[nodiscard]] Result<void> keep_up();
  /// Ends the recording, reads its data, and removes it. Inconsistent rings become notes. Errors:
  /// `not_found` (the recording's folder was removed).
  [[nodiscard]] Result<Trace> finish();

 private:
  struct Impl;
  explicit Recording(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantry::trace
