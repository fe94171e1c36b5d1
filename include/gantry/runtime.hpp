#pragma once  // gantry/runtime.hpp: the composition root.

#include <gantry/channel.hpp>
#include <gantry/channel/inbox.hpp>
#include <gantry/channel/request.hpp>
#include <gantry/device/device.hpp>
#include <gantry/engine/file_io.hpp>
#include <gantry/engine/policy.hpp>
#include <gantry/memory/registrar.hpp>

namespace gantry {

// ---- the machine ---------------------------------------------------------------------------

struct CacheFacts {
  unsigned level = 0;
  Bytes bytes = 0;
  unsigned count = 0;  ///< How many of them the machine has.
};

struct HugePageFacts {
  Bytes page_bytes = 0;
  std::uint64_t total = 0;
  std::uint64_t free = 0;
};

struct MachineFacts {
  std::string cpu_model;
  unsigned cpus = 0;         ///< That this process may use.
  unsigned cpus_online = 0;  ///< Of the machine.
  double cpu_quota = 0;      ///< The control group's limit in CPUs; 0: none.
  unsigned numa_nodes = 0;
  std::vector<CacheFacts> caches;
  Bytes memory_bytes = 0;         ///< Of the machine, or the control group's limit when smaller.
  Bytes memory_free_bytes = 0;    ///< Available now.
  Bytes memlock_limit_bytes = 0;  ///< Soft limit; the largest value means unlimited.
  std::vector<HugePageFacts> huge_pages;
  std::string transparent_huge_pages;         ///< always, madvise or never.
  std::string transparent_huge_pages_shared;  ///< The same for shared memory.
  std::string kernel;
};

[[nodiscard]] GANTRY_API MachineFacts probe_machine();

/// What Gantry uses of newer kernels: whether this process may use it, and what is lost without it.
/// docs/platforms.md
[[nodiscard]] GANTRY_API std::vector<EngineStatus> kernel_features();

// ---- runtime -------------------------------------------------------------------------------

struct RuntimeOptions {
  std::string directory;  ///< Empty: channel_directory()'s rule.
  /// The engine that copies for send(). Empty: $GANTRY_ENGINE, which is NAME or require:NAME, else
  /// "auto".
  std::string engine = {};
  bool require_engine = false;  ///< One that cannot be used is an error; else "auto" stands in.
};

/// What "auto" chooses by, and where that is kept.
struct CalibrationStatus {
  Calibration calibration;
  std::string path;   ///< Of its file; empty: there is no place for one.
  bool kept = false;  ///< It is in that file, for the next process.
  std::string note;   ///< Why not, or why the file there was not taken; may be empty.
};

struct CalibrateOptions {
  bool quick = false;  ///< In under a second; else in at most 20.
  /// Told what begins and which part of the whole is done, from 0 to 1. False: stop, nothing kept.
  std::function<bool(std::string_view step, double done)> on_step = {};
};

/// Probes the machine, builds the engines, opens channels with them. Cheap to move; ends that
/// it opened may outlive it.
class GANTRY_API Runtime {
 public:
  [[nodiscard]] static Result<Runtime> create(const RuntimeOptions& options = {});
  Runtime(Runtime&&) noexcept;
  Runtime& operator=(Runtime&&) noexcept;
  ~Runtime();

  [[nodiscard]] Result<Producer> producer(std::string_view name, ProducerOptions options = {});
  [[nodiscard]] Result<Consumer> consumer(std::string_view name, ConsumerOptions options = {},
                                          Deadline deadline = Deadline::never());
  /// Many producers to one: who receives has the name, the others connect().
  [[nodiscard]] Result<Inbox> inbox(std::string_view name, InboxOptions options = {});
  [[nodiscard]] Result<Producer> connect(std::string_view inbox, ProducerOptions options = {},
                                         Deadline deadline = Deadline::never());
  /// Calls that are answered.
  [[nodiscard]] Result<Server> server(std::string_view name, ServerOptions options = {});
  [[nodiscard]] Result<Client> client(std::string_view server, ClientOptions options = {},
                                      Deadline deadline = Deadline::never());

  /// The engine of that name ("inline", "thread", "auto"). Errors: `not_found`, `unsupported`.
  [[nodiscard]] Result<std::shared_ptr<Engine>> engine(std::string_view name) const;
  /// The one that copies for send(): see RuntimeOptions::engine.
  [[nodiscard]] std::shared_ptr<Engine> default_engine() const;
  [[nodiscard]] std::vector<EngineStatus> engines() const;

  /// What computes beside the CPU, and the CPU itself: "cpu", "opencl" (its first device),
  /// "opencl:1". Files of jobs that run there go by io_uring where that works. Errors: `not_found`
  /// (with the names there are), `unsupported` (with what to install), `timed_out` (it does not
  /// answer), `system`.
  [[nodiscard]] Result<std::shared_ptr<Device>> open_device(std::string_view name) const;
  /// Each device, or why a kind has none. Loads the drivers: some tenths of a second.
  [[nodiscard]] std::vector<EngineStatus> devices() const;

  /// Where nothing fits the machine, "auto" makes a quick one when the first move of 1 MiB or more
  /// comes, unless $GANTRY_CALIBRATE is `off`.
  [[nodiscard]] CalibrationStatus calibration() const;
  /// Measures all usable engines, keeps the result and has "auto" choose by it. The engines are
  /// in use meanwhile. A result that cannot be kept is none the less in use: see the note.
  /// Errors: `busy` (another process is at it), `interrupted`, `out_of_memory`.
  [[nodiscard]] Result<CalibrationStatus> calibrate(const CalibrateOptions& options = {});

 private:
  struct Impl;
  explicit Runtime(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
};

// ---- registrars -----------------------------------------------------------------------------

enum class RegistrarKind {
  page_lock,  ///< mlock(): memory that stays resident.
  uring,      ///< io_uring's fixed buffers.
  fabric,     ///< Memory regions of libfabric.
  cuda,       ///< Host memory that CUDA devices reach directly.
};
[[nodiscard]] GANTRY_API std::string_view to_string(RegistrarKind kind) noexcept;

/// What each kind asks for; the others ignore it.
struct RegistrarSetup {
  RegistrarOptions limits{};

  /// uring: the ring whose operations will use the buffers; it has no fixed buffers yet, is
  /// duplicated, and is given its table back when the registrar goes. -1: one of its own, which
  /// no operation can use: for measuring.
  int ring_descriptor = -1;
  unsigned ring_slots = 1024;  ///< uring: most registrations at a time.

  /// fabric: the `struct fid_domain` whose endpoints will use the memory; it must outlive the
  /// registrar. Null: one of its own by `fabric_provider`, which no endpoint can use.
  void* fabric_domain = nullptr;
  std::string fabric_provider = "tcp";

  int cuda_device = 0;  ///< cuda: whose primary context registers; every device may use it.
};

/// Errors: `unsupported`, with what to install or switch on; what the kind says of its set-up.
[[nodiscard]] GANTRY_API Result<std::shared_ptr<Registrar>> make_registrar(
    RegistrarKind kind, const RegistrarSetup& setup = {});

struct RegistrarStatus {
  std::string name;
  bool usable = false;
  std::string why;   ///< What it registers with, or why it cannot.
  std::string hint;  ///< How to make it usable; empty when it is.
};

/// Tries each kind with a page of memory, fabric with each provider that Gantry is tested with.
/// Loads the libraries behind them: some tenths of a second.
[[nodiscard]] GANTRY_API std::vector<RegistrarStatus> probe_registrars();

// ---- files ---------------------------------------------------------------------------------

/// By name: "io_uring", "pread". Devices that a Runtime opens have the best of them already.
/// Errors: `unsupported`, with what to install or switch on; `not_found`.
[[nodiscard]] GANTRY_API Result<std::shared_ptr<FileIo>> make_file_io(std::string_view name);
/// Each of them, the best first: usable here, or why not and how to mend that.
[[nodiscard]] GANTRY_API std::vector<EngineStatus> file_ios();

/// Library version, "MAJOR.MINOR.PATCH".
[[nodiscard]] GANTRY_API std::string_view version() noexcept;

}  // namespace gantry
