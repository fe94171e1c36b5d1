#include "support/dsa/device_model.hpp"

#include <cerrno>
#include <chrono>
#include <system_error>

#include "core/base/clock.hpp"
#include "core/base/os/cpu.hpp"
#include "core/base/result.hpp"

namespace gantry::dsa {
namespace {

constexpr std::uint64_t kFixedNs = 1200;
constexpr std::uint64_t kBytesPerNs = 30;
constexpr std::uint64_t kSpinNs = 150'000;  // more than a sleep may be late

std::uint64_t transfer_ns(Bytes bytes) noexcept {
  return (bytes + kBytesPerNs - 1) / kBytesPerNs;
}

}  // namespace

// ---- both sides ----------------------------------------------------------------------------

Result<std::unique_ptr<DeviceModel>> DeviceModel::create(const ModelOptions& options) {
  const Limits& limits = options.limits;
  if (options.entries == 0 || limits.max_batch == 0 || limits.max_transfer_bytes == 0)
    return fail(Code::invalid_argument, "DSA model: a queue, batch or transfer of nothing");
  if (limits.version != 1 && limits.version != 2)
    return fail(Code::invalid_argument,
                fmt::format("DSA model: version {}: 1 and 2 are known", limits.version));
  GANTRY_TRY(check_copy_mapped_works());
  std::unique_ptr<DeviceModel> model(new DeviceModel(options));
  GANTRY_TRY(model->start());
  return model;
}

Result<void> DeviceModel::start() {
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    return fail(Code::system, fmt::format("starting the DSA model's thread: {}", error.what()),
                "raise the limit of processes (ulimit -u)");
  }
  return {};
}

DeviceModel::~DeviceModel() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// ---- the submitters' side ------------------------------------------------------------------

bool DeviceModel::accept(const Descriptor& descriptor) {
  {
    const std::lock_guard lock(mutex_);
    if (script_.refuses() || closed_ || halted_ == Halt::refuses ||
        queue_.size() >= options_.entries)
      return false;
    queue_.push_back({descriptor, monotonic_ns()});
    ++counts_.accepted;
  }
  changed_.notify_all();
  return true;
}

bool DeviceModel::enqcmd(const Descriptor& descriptor) {
  const bool accepted = options_.kind == QueueKind::shared && accept(descriptor);
  if (accepted) return false;
  const std::lock_guard lock(mutex_);
  ++counts_.refused;
  return true;
}

void DeviceModel::movdir64b(const Descriptor& descriptor) {
  if (options_.kind == QueueKind::dedicated && accept(descriptor)) return;
  const std::lock_guard lock(mutex_);
  ++counts_.dropped;
}

// 0 or an errno value, by the rules of the kernel's idxd driver.
int DeviceModel::submit_written(Address address) {
  Descriptor descriptor;
  if (copy_mapped(address_of(&descriptor), address, sizeof descriptor) != sizeof descriptor)
    return EFAULT;
  if (descriptor.opcode() == Opcode::batch && options_.limits.version == 1) return EINVAL;
  if (descriptor.completion % alignof(CompletionRecord) != 0) return EINVAL;
  if (options_.kind == QueueKind::shared) return enqcmd(descriptor) ? EAGAIN : 0;
  movdir64b(descriptor);  // an overflow is lost here too
  return 0;
}

ssize_t DeviceModel::write(ConstByteSpan descriptors) {
  int error = ::getpid() == owner_ ? 0 : EPERM;
  std::size_t written = 0;
  while (error == 0 && descriptors.size() - written >= sizeof(Descriptor)) {
    error = submit_written(address_of(descriptors.data()) + written);
    if (error == 0) written += sizeof(Descriptor);
  }
  if (error == 0 || written > 0) return static_cast<ssize_t>(written);
  errno = error;
  return -1;
}

void DeviceModel::fault_next(const PageFault& fault) {
  const std::lock_guard lock(mutex_);
  script_.add(fault);
}

void DeviceModel::fault_next_batch(std::uint32_t completed) {
  const std::lock_guard lock(mutex_);
  script_.fault_next_batch(completed);
}

void DeviceModel::refuse_next(unsigned submissions, unsigned after) {
  const std::lock_guard lock(mutex_);
  script_.refuse_next(submissions, after);
}

void DeviceModel::fault_randomly(const RandomFaults& faults) {
  const std::lock_guard lock(mutex_);
  script_.randomly(faults);
}

void DeviceModel::halt(Halt how) {
  std::unique_lock lock(mutex_);
  halted_ = how;
  changed_.notify_all();  // to drain()
  changed_.wait(lock, [this] { return !executing_; });
}

void DeviceModel::resume() {
  {
    const std::lock_guard lock(mutex_);
    halted_.reset();
  }
  changed_.notify_all();
}

void DeviceModel::await_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !executing_; });
}

void DeviceModel::drain() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  const auto idle = [this] { return queue_.empty() && !executing_; };
  changed_.wait(lock, [&] { return halted_ || idle(); });
  queue_.clear();
  changed_.wait(lock, idle);
}

ModelCounts DeviceModel::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::optional<SoftwareError> DeviceModel::take_software_error() {
  const std::lock_guard lock(mutex_);
  return std::exchange(software_error_, std::nullopt);
}

// ---- the device's side ---------------------------------------------------------------------

void DeviceModel::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || (!halted_ && !queue_.empty()); });
    if (stopping_) return;
    const Entry entry = queue_.front();
    queue_.pop_front();  // I2
    executing_ = true;
    lock.unlock();
    process(entry);
    lock.lock();
    executing_ = false;
    ++counts_.ended;
    changed_.notify_all();
  }
}

void DeviceModel::process(const Entry& entry) {
  free_at_ns_ = std::max(free_at_ns_, entry.submitted_ns) + kFixedNs;
  carry_out(entry.descriptor, Place::queue);
}

// From the check to the answer.
Status DeviceModel::carry_out(const Descriptor& descriptor, Place place) {
  const Checked checked = check(descriptor, options_.limits, place);
  Answer result;
  result.status = checked.status;
  if (checked.status == Status::success) {
    result =
        descriptor.opcode() == Opcode::batch ? run_batch(descriptor) : run_operation(descriptor);
  } else if (checked.status == Status::completion_misaligned ||
             checked.status == Status::completion_not_translated) {
    report_software_error(checked.status, descriptor);
    return checked.status;
  }
  if (checked.bad_flags != Flags::none)
    result.record.extra[0] = static_cast<std::uint32_t>(checked.bad_flags);
  answer(descriptor, result);
  return result.status;
}

DeviceModel::Answer DeviceModel::run_operation(const Descriptor& descriptor) {
  std::unique_lock lock(mutex_);
  const std::optional<Stop> stop = script_.stop_for(descriptor);
  lock.unlock();
  const Executed executed = operations_.execute(descriptor, stop);
  free_at_ns_ += transfer_ns(executed.bytes);

  Answer result;
  result.record.result = executed.result;
  if (executed.fault) {
    const bool blocked = has(descriptor.flags(), Flags::block_on_fault);
    result.status = blocked ? Status::page_fault_unresolved : Status::page_fault;
    result.wrote = executed.fault->written;
    result.record.bytes_completed = static_cast<std::uint32_t>(executed.bytes);
    result.record.fault_address = executed.fault->address;
    lock.lock();
    ++counts_.page_faults;
    return result;
  }
  return result;
}

DeviceModel::Answer DeviceModel::run_batch(const Descriptor& batch) {
  std::unique_lock lock(mutex_);
  const std::uint32_t readable = script_.batch_fault(batch.size).value_or(batch.size);
  lock.unlock();
  Answer result;
  std::uint32_t& done = result.record.bytes_completed;
  for (; done < batch.size; ++done) {
    const Address address = batch.source + done * sizeof(Descriptor);
    Descriptor next;
    if (done == readable || copy_mapped(address_of(&next), address, sizeof next) != sizeof next) {
      result.status = Status::batch_page_fault;
      result.record.fault_address = address;
      lock.lock();
      ++counts_.page_faults;
      return result;
    }
    // A fence after a failure: this one and all that follow are given up.
    if (has(next.flags(), Flags::fence) && result.status != Status::success) return result;
    if (carry_out(next, Place::batch) != Status::success) result.status = Status::batch_failed;
  }
  return result;
}

void DeviceModel::answer(const Descriptor& descriptor, Answer& answer) {
  let_pass(free_at_ns_);
  const bool failed = answer.status != Status::success;
  if (!has(descriptor.flags(), Flags::completion_valid)) {
    if (failed) report_software_error(answer.status, descriptor);
    return;
  }
  if (!failed && !has(descriptor.flags(), Flags::request_completion)) return;
  // All but the status, which is the first byte.
  const Bytes rest = sizeof(CompletionRecord) - 1;
  if (copy_mapped(descriptor.completion + 1, address_of(&answer.record) + 1, rest) != rest)
    return report_software_error(Status::completion_not_translated, descriptor);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a device's address; it was written just now
  auto* record = reinterpret_cast<CompletionRecord*>(descriptor.completion);
  const auto raw = static_cast<std::uint8_t>(answer.status);
  store_status(*record, answer.wrote ? raw | kStatusWrite : raw);  // I1
}

void DeviceModel::report_software_error(Status status, const Descriptor& descriptor) {
  const std::lock_guard lock(mutex_);
  ++counts_.software_errors;
  if (!software_error_) software_error_ = SoftwareError{status, descriptor};
}

// Sleeps through the long part, so that the model does not take a core from what is measured.
void DeviceModel::let_pass(std::uint64_t until_ns) {
  if (!options_.timing) return;
  for (std::uint64_t now = monotonic_ns(); now < until_ns; now = monotonic_ns()) {
    if (until_ns - now > kSpinNs)
      std::this_thread::sleep_for(std::chrono::nanoseconds(until_ns - now - kSpinNs));
    else
      cpu_relax();
  }
}

}  // namespace gantry::dsa
