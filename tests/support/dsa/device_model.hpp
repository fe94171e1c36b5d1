#pragma once  // tests/support/dsa/device_model.hpp: a DSA work queue in a program, for machines
              // without one.

#include <sys/types.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "device/dsa/work_queue.hpp"
#include "support/dsa/model_checks.hpp"
#include "support/dsa/model_faults.hpp"

namespace gantry::dsa {

struct ModelOptions {
  QueueKind kind = QueueKind::shared;
  unsigned entries = 16;
  Limits limits{};
  /// A descriptor takes at least 1.2 us and its bytes at 30 GB/s, as published. The 1.2 us count
  /// once for a whole batch. Figures made with this are `simulated`. Off: as fast as it goes.
  bool timing = false;
};

/// How a device stops. What it had accepted stays unanswered either way.
enum class Halt {
  accepts,  ///< It goes on to fill its queue.
  refuses,  ///< It takes nothing more: ENQCMD says retry, MOVDIR64B is dropped.
};

/// Where a device says what it has no completion record for. The first one stays until taken.
struct SoftwareError {
  Status status = Status::none;
  Descriptor descriptor{};
};

struct ModelCounts {
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;  ///< Retry was said.
  std::uint64_t dropped = 0;  ///< Posted writes lost without a word.
  std::uint64_t ended = 0;    ///< Of the accepted ones; a batch is one.
  std::uint64_t page_faults = 0;
  std::uint64_t software_errors = 0;
};

/// Takes descriptors as the device does, checks them as it does, executes them in its own thread
/// in the order of their coming and answers in their completion records. Every function may be
/// called by any thread. I1: an answer is written after everything it tells of. I2: a descriptor
/// leaves the queue before it is executed, so whoever sees an answer finds room for one more.
///
/// Memory that a descriptor names may be unmapped; that is a page fault. The one exception is a
/// completion record unmapped by another thread in the instant in which it is written.
class DeviceModel {
 public:
  /// Errors: `invalid_argument`; `unsupported` as check_copy_mapped_works(); `system`.
  [[nodiscard]] static Result<std::unique_ptr<DeviceModel>> create(const ModelOptions& options);
  /// The descriptor in execution ends, those in the queue are never answered.
  ~DeviceModel();
  DeviceModel(const DeviceModel&) = delete;
  DeviceModel& operator=(const DeviceModel&) = delete;

  /// The portal of a shared queue. True: not accepted, try again; a dedicated one always says so.
  [[nodiscard]] bool enqcmd(const Descriptor& descriptor);
  /// The portal of a dedicated queue. What overflows it, or goes to a shared one, is lost.
  void movdir64b(const Descriptor& descriptor);
  /// write() on the queue's device file: the bytes accepted, or -1 with errno. EAGAIN: full.
  /// EINVAL: a misaligned completion address, a batch for DSA 1. EFAULT: the descriptors cannot be
  /// read. EPERM: after a fork. After the first descriptor they end the count instead.
  [[nodiscard]] ssize_t write(ConstByteSpan descriptors);

  // What shall go wrong.
  void fault_next(const PageFault& fault);         ///< Adds; in the order of their adding.
  void fault_next_batch(std::uint32_t completed);  ///< Its list, after so many descriptors.
  void refuse_next(unsigned submissions, unsigned after = 0);  ///< As if the queue was full.
  void fault_randomly(const RandomFaults& faults);
  void halt(Halt how);  ///< Returns when nothing is being executed.
  void resume();

  /// Waits until everything accepted has ended; for ever while the device is halted.
  void await_idle();
  /// As the kernel does when a queue is closed for the last time: waits until everything accepted
  /// has ended, and drops it if the device is halted. Takes nothing more afterwards.
  void drain();
  [[nodiscard]] const ModelOptions& options() const noexcept { return options_; }
  [[nodiscard]] ModelCounts counts() const;
  [[nodiscard]] std::optional<SoftwareError> take_software_error();

 private:
  struct Entry {
    Descriptor descriptor;
    std::uint64_t submitted_ns;
  };
  struct Answer {
    Status status = Status::success;
    bool wrote = false;  // a page fault of a write
    CompletionRecord record{};
  };

  explicit DeviceModel(const ModelOptions& options) : options_(options) {}
  Result<void> start();
  bool accept(const Descriptor& descriptor);
  int submit_written(Address descriptor);
  void work();

  // The thread's.
  void process(const Entry& entry);
  Status carry_out(const Descriptor& descriptor, Place place);
  Answer run_operation(const Descriptor& descriptor);
  Answer run_batch(const Descriptor& batch);
  void answer(const Descriptor& descriptor, Answer& answer);
  void report_software_error(Status status, const Descriptor& descriptor);
  void let_pass(std::uint64_t ns);

  const ModelOptions options_;
  const pid_t owner_ = ::getpid();
  Operations operations_;         // the thread's
  std::uint64_t free_at_ns_ = 0;  // the thread's: when the device that is modelled would be free

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> queue_;
  FaultScript script_;
  ModelCounts counts_;
  std::optional<SoftwareError> software_error_;
  std::optional<Halt> halted_;
  bool executing_ = false;
  bool closed_ = false;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace gantry::dsa
