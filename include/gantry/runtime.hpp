#pragma once  // gantry/runtime.hpp: the composition root.

#include <gantry/channel.hpp>
#include <gantry/channel/inbox.hpp>
#include <gantry/channel/request.hpp>
#include <gantry/device/device.hpp>
#include <gantry/engine/file_io.hpp>
#include <gantry/engine/policy.hpp>
#include <gantry/link.hpp>
#include <gantry/memory/registrar.hpp>

namespace gantry {

// ---- the machine ---------------------------------------------------------------------------

/// One cache of a CPU.
struct CacheFacts {
  unsigned level = 0;  ///< 1: the one next to a core.
  Bytes bytes = 0;     ///< Size of one.
  unsigned count = 0;  ///< Number of such caches in the machine.
};

/// Which huge pages this machine gives.
struct HugePageFacts {
  Bytes page_bytes = 0;     ///< Size of a page.
  std::uint64_t total = 0;  ///< Pages that are reserved.
  std::uint64_t free = 0;   ///< Those of them that nobody uses.
};

/// What this machine has.
struct MachineFacts {
  std::string cpu_model;           ///< Empty: not known.
  unsigned cpus = 0;               ///< CPUs that this process may use.
  unsigned cpus_online = 0;        ///< CPUs of the machine.
  double cpu_quota = 0;            ///< The control group's limit in CPUs; 0: none.
  unsigned numa_nodes = 0;         ///< 0: not known.
  std::vector<CacheFacts> caches;  ///< Of data, by level.
  Bytes memory_bytes = 0;          ///< Of the machine, or the control group's limit if smaller.
  Bytes memory_free_bytes = 0;     ///< Available now.
  Bytes memlock_limit_bytes = 0;   ///< Soft limit; the largest value means unlimited.
  std::vector<HugePageFacts> huge_pages;      ///< Each size that there is, the smallest first.
  std::string transparent_huge_pages;         ///< always, madvise or never.
  std::string transparent_huge_pages_shared;  ///< The same for shared memory.
  std::string kernel;                         ///< Name and release: "Linux 6.8.0".
};

/// Asks the kernel and hwloc; takes some milliseconds.
[[nodiscard]] GANTRY_API MachineFacts probe_machine();

/// Newer kernel features that Gantry uses: whether this process may use each, and what is lost
/// without it. docs/platforms.md
[[nodiscard]] GANTRY_API std::vector<EngineStatus> kernel_features();

// ---- runtime -------------------------------------------------------------------------------

/// What a runtime is opened with; nothing is needed.
struct RuntimeOptions {
  std::string directory = {};  ///< Empty: by the rule of channel_directory().
  /// The engine that copies for send(). Empty: $GANTRY_ENGINE, which is NAME or require:NAME;
  /// without it "auto".
  std::string engine = {};
  bool require_engine = false;  ///< An unusable engine is an error; otherwise "auto" replaces it.
  bool notices = true;          ///< EndOptions::notices of each end that it opens.
};

/// The calibration that "auto" chooses by, and where it is kept.
struct CalibrationStatus {
  Calibration calibration;  ///< What was measured, or is assumed.
  std::string path;         ///< Its file; empty: there is no place for one.
  bool kept = false;        ///< The file has it, for the next process.
  std::string note;  ///< Why it is not kept, or why the file there was refused; may be empty.
};

/// How long `gantry calibrate` measures, and who hears of it.
struct CalibrateOptions {
  bool quick = false;  ///< Takes less than a second instead of up to 20.
  /// Called with what begins and the part of the whole that is done, from 0 to 1. Return false to
  /// stop; then nothing is kept.
  std::function<bool(std::string_view step, double done)> on_step = {};
};

/// Probes the machine, builds the engines, opens channels with them. Cheap to move. The ends that
/// it opened may outlive it.
class GANTRY_API Runtime {
 public:
  /// Errors: `invalid_argument`; those of the engine that the options name.
  [[nodiscard]] static Result<Runtime> create(const RuntimeOptions& options = {});
  Runtime(Runtime&&) noexcept;
  Runtime& operator=(Runtime&&) noexcept;
  ~Runtime();

  /// Takes the name; consumers may come at any later time. Errors: as Producer::open().
  [[nodiscard]] Result<Producer> producer(std::string_view name, ProducerOptions options = {});
  /// Joins the channel, and waits for its producer to appear. Errors: as Consumer::open().
  [[nodiscard]] Result<Consumer> consumer(std::string_view name, ConsumerOptions options = {},
                                          Deadline deadline = Deadline::never());
  /// Many producers to one receiver: the receiver has the name, the producers connect().
  [[nodiscard]] Result<Inbox> inbox(std::string_view name, InboxOptions options = {});
  /// Connects to an inbox. Errors: as Producer::connect().
  [[nodiscard]] Result<Producer> connect(std::string_view inbox, ProducerOptions options = {},
                                         Deadline deadline = Deadline::never());
  /// Calls with replies.
  [[nodiscard]] Result<Server> server(std::string_view name, ServerOptions options = {});
  /// Connects to a server. Errors: as Client::connect().
  [[nodiscard]] Result<Client> client(std::string_view server, ClientOptions options = {},
                                      Deadline deadline = Deadline::never());

  /// Returns the engine of that name ("inline", "thread", "auto"). Errors: `not_found`,
  /// `unsupported`.
  [[nodiscard]] Result<std::shared_ptr<Engine>> engine(std::string_view name) const;
  /// The engine that copies for send(): RuntimeOptions::engine. Null on one that was moved from.
  [[nodiscard]] std::shared_ptr<Engine> default_engine() const;
  /// All engines, also those that do not work here, and why.
  [[nodiscard]] std::vector<EngineStatus> engines() const;

  /// Opens a device: "cpu", "opencl" (its first device), "opencl:1". Jobs there read files by
  /// io_uring where that works. Errors: `not_found` (with the names that exist), `unsupported`
  /// (with what to install), `timed_out` (the device does not answer), `system`.
  [[nodiscard]] Result<std::shared_ptr<Device>> open_device(std::string_view name) const;
  /// Lists each device, or why a kind has none. Loads the drivers, which takes some tenths of a
  /// second.
  [[nodiscard]] std::vector<EngineStatus> devices() const;

  /// The calibration in use. If none fits the machine, "auto" makes a quick one at the first move
  /// of 1 MiB or more, unless $GANTRY_CALIBRATE is `off`.
  [[nodiscard]] CalibrationStatus calibration() const;
  /// Measures all usable engines, keeps the result and has "auto" choose by it. The engines are in
  /// use meanwhile. A result that cannot be kept is used all the same: see the note. Errors: `busy`
  /// (another process is calibrating), `interrupted`, `out_of_memory`.
  [[nodiscard]] Result<CalibrationStatus> calibrate(const CalibrateOptions& options = {});

 private:
  struct Impl;
  explicit Runtime(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
};

// ---- registrars -----------------------------------------------------------------------------

/// Who makes memory known to which device.
enum class RegistrarKind {
  page_lock,  ///< mlock(): memory that stays resident.
  uring,      ///< io_uring's fixed buffers.
  fabric,     ///< Memory regions of libfabric.
  cuda,       ///< Host memory that CUDA devices reach directly.
};
[[nodiscard]] GANTRY_API std::string_view to_string(RegistrarKind kind) noexcept;

/// What each kind needs; the others ignore it.
struct RegistrarSetup {
  RegistrarOptions limits{};  ///< Of any kind.

  /// uring: the ring whose operations will use the buffers. It must have no fixed buffers yet; it
  /// is duplicated, and gets its table back when the registrar goes. -1: a ring of the registrar's
  /// own, which no operation can use, for measuring.
  int ring_descriptor = -1;
  unsigned ring_slots = 1024;  ///< uring: the most registrations at a time.

  /// fabric: the `struct fid_domain` whose endpoints will use the memory; it must outlive the
  /// registrar. Null: a domain of the registrar's own by `fabric_provider`, which no endpoint can
  /// use.
  void* fabric_domain = nullptr;
  std::string fabric_provider = "tcp";  ///< fabric: of libfabric, by its name.

  int cuda_device = 0;  ///< cuda: the device that registers; every device may use it.
};

/// Errors: `unsupported`, with what to install or switch on; those of the kind about its set-up.
[[nodiscard]] GANTRY_API Result<std::shared_ptr<Registrar>> make_registrar(
    RegistrarKind kind, const RegistrarSetup& setup = {});

/// Whether a registrar works on this machine.
struct RegistrarStatus {
  std::string name;     ///< "page-lock", "uring", "fabric-tcp", "fabric-shm" or "cuda".
  bool usable = false;  ///< True: a page was registered.
  std::string why;      ///< What it registers with, or why it cannot.
  std::string hint;     ///< How to make it usable; empty when it is.
};

/// Tries each kind with a page of memory, fabric with each provider that Gantry is tested with.
/// Loads the libraries behind them, which takes some tenths of a second.
[[nodiscard]] GANTRY_API std::vector<RegistrarStatus> probe_registrars();

// ---- files ---------------------------------------------------------------------------------

/// Makes one by name: "io_uring", "pread". Devices that a Runtime opens have the best already.
/// Errors: `unsupported`, with what to install or switch on; `not_found`.
[[nodiscard]] GANTRY_API Result<std::shared_ptr<FileIo>> make_file_io(std::string_view name);
/// Lists them, the best first: usable here, or why not and how to mend that.
[[nodiscard]] GANTRY_API std::vector<EngineStatus> file_ios();

// ---- links ---------------------------------------------------------------------------------

/// Lists the kinds of links: usable here, or why not and how to mend that. Loads libfabric, which
/// takes some tenths of a second.
[[nodiscard]] GANTRY_API std::vector<EngineStatus> links();

/// Library version, "MAJOR.MINOR.PATCH".
[[nodiscard]] GANTRY_API std::string_view version() noexcept;

}  // namespace gantry
