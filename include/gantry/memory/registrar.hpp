#pragma once  // gantry/memory/registrar.hpp: makes memory known to a device once; a handle keeps it
              // so.

#include <chrono>
#include <gantry/types.hpp>
#include <memory>

namespace gantry {

/// How an operation of a device names registered memory.
struct DeviceKey {
  std::uint64_t key = 0;         ///< Local: io_uring's buffer index, libfabric's descriptor.
  std::uint64_t remote_key = 0;  ///< Key for a peer (libfabric); 0 if there is none.
  Bytes offset = 0;              ///< Offset of the memory within what `key` stands for.
};

/// What the device may do with registered memory.
enum class DeviceAccess : std::uint8_t {
  read_write,  ///< It reads and writes.
  /// It only reads. The way for memory that is mapped read-only, as a consumer's is. Not every
  /// device has it: see Registrar::register_memory().
  read,
};

/// How much a registrar may register.
struct RegistrarOptions {
  Bytes budget_bytes = 0;  ///< Most bytes registered at a time; 0: no limit of ours.
};

/// What a registrar has registered.
struct RegistrarReport {
  std::string name;                 ///< Registrar::name().
  std::uint64_t registrations = 0;  ///< Present registrations.
  Bytes bytes = 0;                  ///< Present bytes.
  Bytes peak_bytes = 0;             ///< The most at any time.
  Bytes budget_bytes = 0;           ///< 0: no limit.
  std::uint64_t made = 0;           ///< Registrations ever made.
  std::uint64_t reused = 0;         ///< Requests inside a registration that existed already.
  std::uint64_t failed = 0;         ///< Requests refused, by the device or by the budget.
  std::chrono::nanoseconds time{};  ///< Time spent in registering and unregistering.
  std::string last_error;           ///< Empty if there was none.
};

class Registrar;
struct Slab;              // private: a pool's
class SlabRegistrations;  // private: a consumer's

/// Keeps memory known to a registrar for as long as this lives. Move-only; dropping it unregisters
/// the memory. Memory that is part of a larger registration is unregistered with that.
class GANTRY_API Registration {
 public:
  Registration() noexcept = default;
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;
  ~Registration();

  /// The memory that the device knows by it.
  [[nodiscard]] ByteSpan memory() const noexcept { return memory_; }
  [[nodiscard]] explicit operator bool() const noexcept { return registrar_ != nullptr; }
  /// Who registered it; null of an empty one.
  [[nodiscard]] const Registrar* registrar() const noexcept { return registrar_.get(); }

  /// Errors: `invalid_argument` for an empty handle, and in a fork()ed child, since the parent's
  /// registrations belong to the parent.
  [[nodiscard]] Result<DeviceKey> key() const;

 private:
  friend class Registrar;
  std::shared_ptr<Registrar> registrar_;
  ByteSpan memory_;
  void* range_ = nullptr;  // the registrar's entry that covers memory_
  DeviceKey key_;
};

/// A device that must know memory before it uses it. Thread-safe. Held by shared_ptr: every
/// registration keeps its registrar alive.
class GANTRY_API Registrar : public std::enable_shared_from_this<Registrar> {
 public:
  virtual ~Registrar();
  Registrar(const Registrar&) = delete;
  Registrar& operator=(const Registrar&) = delete;

  /// Registers `memory`, or returns a handle into the registration that covers it already. The
  /// memory must stay mapped until the last handle to it is dropped: memory that is mapped there
  /// later would be taken for it. Errors: `already_exists` when it overlaps a registration without
  /// lying inside it, or lies in one that is for reading and is to be written; `out_of_memory`
  /// above the budget or the system's limit; `too_large`; `invalid_argument` for 0 bytes;
  /// `unsupported` for memory that is mapped read-only, where the device cannot be told of such;
  /// `system`.
  [[nodiscard]] Result<Registration> register_memory(
      ByteSpan memory, DeviceAccess access = DeviceAccess::read_write);

  /// What reports and errors call it.
  [[nodiscard]] const std::string& name() const noexcept;
  /// What it has registered now and ever.
  [[nodiscard]] RegistrarReport report() const;

 protected:
  /// What a backend returns for one range.
  struct Keys {
    std::uint64_t key = 0;         ///< DeviceKey::key.
    std::uint64_t remote_key = 0;  ///< DeviceKey::remote_key.
  };
  /// For a backend; `name` is used in messages.
  Registrar(std::string name, const RegistrarOptions& options);

  // For implementations. Called one at a time, under the registrar's lock.
  [[nodiscard]] virtual Result<Keys> do_register(ByteSpan memory, DeviceAccess access) = 0;
  /// Returns 0 or an errno value. The memory may be unmapped already; that must do no harm.
  [[nodiscard]] virtual int do_unregister(const Keys& keys, ByteSpan memory) noexcept = 0;

 private:
  friend class Registration;
  friend struct Slab;
  friend class SlabRegistrations;
  [[nodiscard]] Result<Registration> register_fresh(ByteSpan memory, DeviceAccess access);
  [[nodiscard]] Result<Registration> register_checked(ByteSpan memory, DeviceAccess access,
                                                      bool is_fresh);
  [[nodiscard]] Result<Registration> register_locked(ByteSpan memory, DeviceAccess access);
  [[nodiscard]] Result<void> check_range(ByteSpan memory, bool is_fresh);
  [[nodiscard]] Result<void> add(ByteSpan memory, DeviceAccess access);
  void leave(void* range) noexcept;
  struct State;
  std::unique_ptr<State> state_;
};

/// Page-locks memory: it becomes resident and stays so. Needs RLIMIT_MEMLOCK or CAP_IPC_LOCK.
[[nodiscard]] GANTRY_API Result<std::shared_ptr<Registrar>> make_page_lock_registrar(
    const RegistrarOptions& options = {});

}  // namespace gantry
