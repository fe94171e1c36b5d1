// accepted: the same handles, each used as long as it is ours
#include <gantry/channel.hpp>

using namespace gantry;  // NOLINT: a case, not a header
Result<void> send_all(Producer& out, Consumer& in) {
  auto asked = out.loan(10);
  if (!asked) return tl::unexpected(asked.error());
  Loan loan = std::move(*asked);
  loan.bytes()[0] = std::byte{1};
  loan.shrink(5);
  if (auto sent = out.publish(std::move(loan)); !sent) return sent;
  loan = out.loan(20).value();
  loan.bytes()[0] = std::byte{2};
  if (auto sent = out.publish(std::move(loan)); !sent) return sent;
  Block block = out.pool().allocate(100).value();
  block.bytes()[0] = std::byte{3};
  Block shared = block.share();
  if (auto sent = out.send(std::move(block)); !sent) return sent;
  static_cast<void>(shared.bytes().size());
  Draft draft;
  draft.move(std::move(shared)).forward(in.receive().value());
  return out.send(std::move(draft));
}
