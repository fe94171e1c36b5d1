#pragma once  // channel/producer/send_operation.hpp: one message's way from its parts into the
              // consumers' rings.

#include <array>

#include "core/channel/producer/credit_gate.hpp"
#include "core/channel/producer/mode_choice.hpp"
#include "core/channel/producer/second_copier.hpp"

namespace gantry {

/// How a part is converted; null: it is copied as it is. Known after Carriers::settle().
[[nodiscard]] inline const ReshapePlan* plan_of(const Draft::Part& part) noexcept {
  return part.as && part.as->plan ? &*part.as->plan : nullptr;
}
/// Its bytes and its tensor in the message.
[[nodiscard]] inline Bytes size_of(const Draft::Part& part) noexcept {
  const ReshapePlan* plan = plan_of(part);
  return plan != nullptr ? plan->destination_bytes() : part.bytes.size();
}
[[nodiscard]] inline std::optional<Tensor> tensor_of(const Draft::Part& part) {
  const ReshapePlan* plan = plan_of(part);
  return plan != nullptr ? plan->destination() : part.tensor;
}
/// Makes a record's header from the sender's options.
[[nodiscard]] inline RecordToSend record_for(const SendOptions& options, PayloadLocation lies,
                                             std::uint8_t count) noexcept {
  RecordToSend message;
  message.header.user = options.user;
  message.header.type = options.type;
  message.header.kind = static_cast<std::uint8_t>(lies);
  message.header.count = count;
  if (options.correlation == 0 && options.deadline_ns == 0) return message;
  message.header.kind |= kExtra;
  message.extra = {options.correlation, options.deadline_ns, 0};
  return message;
}

/// The cache treatment that an engine would choose for that many bytes in one piece. It is asked
/// once for each bit width of the size.
class CacheUses {
 public:
  [[nodiscard]] CacheUse of(const Lane& lane, Bytes bytes);

 private:
  std::array<CacheUse, 65> uses_{};  // by bit width; automatic: not yet asked
};

/// The parts of the producer that messages go through.
struct SendPath {
  ProducerCore& core;
  CreditGate& gate;
  PayloadAllocator& memory;
  CacheUses& cache_uses;
};

[[nodiscard]] constexpr Bytes round_up(Bytes size, Bytes to) noexcept {
  return (size + to - 1) / to * to;
}
[[nodiscard]] inline bool is_copied(const Draft::Part& part) noexcept {
  return !part.moved && (!part.forwarded || part.copied.data() != nullptr);
}

/// Executes a copy and waits for it. Errors: `invalid_argument` when its source cannot be read.
[[nodiscard]] Result<Completion> copy_by(Lane& lane, Move move);
/// For display.
[[nodiscard]] std::optional<ReshapePlan> plan_of_move(const Move& move);
[[nodiscard]] Error copy_error(const Completion& completion, Bytes bytes);

/// Runs on the caller's thread or the progress thread. It takes a slot and memory; then, by mode,
/// it copies and publishes, or publishes and copies chunk by chunk.
class SendOperation {
 public:
  /// `second`: a second copier; null if there is none.
  SendOperation(const SendPath& path, std::span<Draft::Part> parts, const SendOptions& options,
                Lane& lane, SecondCopier* second)
      : core_(path.core),
        gate_(path.gate),
        memory_(path.memory),
        cache_uses_(path.cache_uses),
        parts_(parts),
        options_(options),
        lane_(lane),
        second_(second) {}

  [[nodiscard]] Result<void> run();
  /// The same in a slot that the caller lent out; the parts may lie in its block, which goes back
  /// at the end. The slot is the caller's still if has_taken_slot() says no.
  [[nodiscard]] Result<void> run_in(Slot& lent) {
    lent_slot_ = &lent;
    return run();
  }
  [[nodiscard]] bool has_taken_slot() const noexcept { return slot_ != nullptr; }
  /// Publishes blocks whose bytes are still to come. The slot stays the sender's.
  [[nodiscard]] Result<Slot*> run_early();

 private:
  using Lock = ProducerCore::Lock;

  [[nodiscard]] SendMode mode_for(ModeQuestion question) const;
  [[nodiscard]] Result<void> look_at_parts();
  [[nodiscard]] Result<void> check_block(const Draft::Part& part) const;
  /// With the channel's name in front of the error.
  [[nodiscard]] Result<void> named(Result<void> checked) const;
  [[nodiscard]] bool is_chunked() const noexcept {
    return mode_ == SendMode::pipelined || mode_ == SendMode::streamed;
  }
  [[nodiscard]] bool needs_table() const noexcept {
    return parts_.size() != 1 || tensor_of(parts_.front()).has_value();
  }
  [[nodiscard]] Result<void> take_slot(Lock& held);
  [[nodiscard]] bool has_memory() noexcept;
  [[nodiscard]] Result<void> take_memory();
  /// Of what is copied.
  [[nodiscard]] Bytes memory_bytes() const noexcept {
    return mode_ == SendMode::streamed ? window_bytes_ : packed_;
  }
  [[nodiscard]] Result<void> place_parts(Lock& held);
  [[nodiscard]] Result<Place> place_of(Draft::Part& part, Bytes packed_at);
  void write_table(std::span<const Place> places);

  /// Takes slot and memory, and does the rest under the lock. The slot goes back if that fails.
  template <class Rest>
  [[nodiscard]] Result<void> with_slot(Lock& held, Rest rest);

  // Under the lock, which they let go while they copy.
  [[nodiscard]] Result<void> copy_then_publish(Lock& held);
  [[nodiscard]] Result<void> publish_then_copy(Lock& held);
  [[nodiscard]] Result<std::shared_ptr<const Region>> copy_sealed() const;
  [[nodiscard]] Result<void> copy_parts();
  /// Nobody else publishes meanwhile: it will have the next number, unless it was published
  /// already.
  [[nodiscard]] std::uint64_t number() const noexcept {
    return message_.header.number != 0 ? message_.header.number : core_.publisher->published() + 1;
  }
  [[nodiscard]] Result<void> write_converted(int memory, Bytes at, const Draft::Part& part) const;
  [[nodiscard]] ChunkPlan plan_for(ByteSpan to, const Draft::Part& part) const noexcept;
  [[nodiscard]] bool goes_by_two() const noexcept {
    return second_ != nullptr && is_for_two(packed_);
  }
  [[nodiscard]] Result<void> copy_chunks(const ChunkPlan& plan);
  [[nodiscard]] Result<void> copy_by_two(const ChunkPlan& plan);
  [[nodiscard]] Result<void> take_turns(SharedCopy& copy);
  [[nodiscard]] Result<void> await_second(SharedCopy& copy);
  void tell(const SharedCopy& copy, std::uint64_t& told);
  [[nodiscard]] Result<void> copy(Move move);
  [[nodiscard]] Result<void> await_window(std::uint64_t chunk);
  void publish_landing();  ///< Under the lock.
  void publish();          ///< Under the lock.
  void landed(Bytes bytes);
  void abort() noexcept;
  void finish();  ///< Under the lock.

  ProducerCore& core_;
  CreditGate& gate_;
  PayloadAllocator& memory_;
  CacheUses& cache_uses_;
  std::span<Draft::Part> parts_;
  SendOptions options_;
  Lane& lane_;
  SecondCopier* second_;

  SendMode mode_ = SendMode::whole;
  Bytes total_ = 0;            // bytes of payload
  Bytes copied_ = 0;           // of these; the rest is moved or forwarded
  Bytes packed_ = 0;           // bytes of memory for what is copied
  Bytes chunk_bytes_ = 0;      // pipelined and streamed
  Bytes window_bytes_ = 0;     // streamed
  Slot* lent_slot_ = nullptr;  // null: it takes one
  Block source_;               // that slot's, of which the message is made
  Slot* slot_ = nullptr;
  std::shared_ptr<const Region> sealed_;  // immutable: all of it, on its way to the slot
  RecordToSend message_;
  CopyEngine engine_ = CopyEngine::inline_;  // of the newest copy
  LastCopy last_copy_;                       // the same, for display
  std::uint64_t copy_ticks_ = 0;             // of all of it; 0: it was not copied to a place
  Bytes landed_ = 0;
  std::uint64_t passed_ = 0;  // chunks that all consumers are done with, as last seen
  bool unwanted_ = false;     // streamed: all consumers dropped it
};

}  // namespace gantry
