#pragma once  // stage/zmq/zmq_link.hpp: one ZeroMQ socket for a link, and the state of its peer.

#include <array>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "stage/buffer_store.hpp"
#include "stage/frame_header.hpp"
#include "stage/zmq/helper_threads.hpp"

namespace gantry {

/// libzmq's threads for one end of a stage. Destroying it ends them, after its links.
class ZmqContext {
 public:
  [[nodiscard]] static Result<std::shared_ptr<ZmqContext>> create();
  explicit ZmqContext(void* handle) : handle_(handle) {}
  ~ZmqContext();
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;

  [[nodiscard]] void* handle() const noexcept { return handle_; }
  [[nodiscard]] HelperThreads& threads() noexcept { return threads_; }
  [[nodiscard]] unsigned next_number() noexcept { return number_++; }

 private:
  void* handle_;
  HelperThreads threads_{"ZMQbg"};  // libzmq names them so
  unsigned number_ = 0;
};

/// Received payloads that are still in use.
class ZmqInbox final : public detail::SlotOwner {
 public:
  /// A zmq_msg_t, which only the .cpp may name.
  struct alignas(16) Part {
    std::array<std::byte, 64> raw;
  };

  ~ZmqInbox() override;
  [[nodiscard]] Part& add();  ///< Returns an initialised, empty part.
  void give_back(std::uint64_t token) noexcept override;
  [[nodiscard]] static std::uint64_t token_of(const Part& part) noexcept;

 private:
  std::mutex mutex_;
  std::list<Part> parts_;
};

/// One PUSH or PULL socket with exactly one peer, and a monitor that says when the peer comes and
/// goes: ZeroMQ itself would say nothing and wait for another one.
class ZmqLink {
 public:
  [[nodiscard]] static Result<ZmqLink> bind_push(std::shared_ptr<ZmqContext> context,
                                                 const std::string& url, unsigned slots);
  [[nodiscard]] static Result<ZmqLink> connect_pull(std::shared_ptr<ZmqContext> context,
                                                    const std::string& url, Bytes largest_bytes);
  ZmqLink(ZmqLink&& other) noexcept;
  ZmqLink& operator=(ZmqLink&&) = delete;
  ~ZmqLink() { close(); }

  void close() noexcept;  ///< Drops what was not sent.

  /// Sends without waiting; the buffer goes back to `store` when libzmq is done with it. False:
  /// there is no credit, and the buffer is still the caller's.
  [[nodiscard]] Result<bool> send(const FrameHeader& header,
                                  const std::shared_ptr<BufferStore>& store,
                                  const BufferStore::Taken& payload);
  [[nodiscard]] Result<bool> send_end();

  struct Received {
    FrameHeader header;
    const ZmqInbox::Part* part = nullptr;  ///< In `inbox`; null for `end`.
    ConstByteSpan bytes;
  };
  /// The next message that is there, or nothing. Errors: `peer_misbehaved`, `system`.
  [[nodiscard]] Result<std::optional<Received>> receive(ZmqInbox& inbox);

  enum class Peer { awaited, here, left };
  Peer peer();  ///< Reads what the monitor has reported since.

  enum class For { credit, message, departure };
  /// Waits until one of `links` has what is waited for, or a peer came or left. Skips closed links.
  /// Errors: `interrupted` when `interrupt` is readable, `timed_out`, `system`.
  [[nodiscard]] static Result<void> wait(std::span<ZmqLink* const> links, For what, int interrupt,
                                         Deadline deadline);

 private:
  ZmqLink(std::shared_ptr<ZmqContext> context, void* socket) noexcept
      : context_(std::move(context)), socket_(socket) {}
  [[nodiscard]] static Result<ZmqLink> open(std::shared_ptr<ZmqContext> context, int type);
  [[nodiscard]] Result<void> watch();

  std::shared_ptr<ZmqContext> context_;
  void* socket_ = nullptr;
  void* monitor_ = nullptr;
  Peer peer_ = Peer::awaited;
};

}  // namespace gantry
