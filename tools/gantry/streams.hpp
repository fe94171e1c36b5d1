#pragma once  // tools/gantry/streams.hpp: standard input and output that Ctrl-C never has to wait
              // for.

#include <vector>

#include "interrupt.hpp"

namespace gantry::cli {

/// Makes a pipe hold as much as is allowed, which saves most of the calls; nothing for the rest.
void widen_pipe(int descriptor) noexcept;

/// Fills `into` from standard input, waiting as long as that takes. Fewer bytes: the input ended.
[[nodiscard]] Result<Bytes> read_input(ByteSpan into, const Interrupt& interrupt);

/// Standard input line by line.
class LineReader {
 public:
  LineReader(Bytes longest, const Interrupt& interrupt);

  /// The next line, its newline included (the last may have none); empty at the end. Valid until
  /// the next call. Errors: `too_large` for a line of more than `longest` bytes.
  [[nodiscard]] Result<ConstByteSpan> next();

 private:
  [[nodiscard]] Result<bool> read_more();
  [[nodiscard]] ConstByteSpan take(Bytes size);

  Bytes longest_;
  const Interrupt& interrupt_;
  std::vector<std::byte> buffer_;
  Bytes begin_ = 0;  // what has not been taken: [begin_, end_)
  Bytes end_ = 0;
  std::uint64_t line_ = 0;
};

/// Standard output for bytes in bulk.
class OutputStream {
 public:
  explicit OutputStream(const Interrupt& interrupt);
  ~OutputStream();
  OutputStream(const OutputStream&) = delete;
  OutputStream& operator=(const OutputStream&) = delete;

  /// All of `bytes`. Errors: `closed` when the reader left, `interrupted`, `system`.
  [[nodiscard]] Result<void> write(ConstByteSpan bytes);

 private:
  const Interrupt& interrupt_;
  int descriptor_;
  bool own_ = false;       // a descriptor of our own that never blocks
  Bytes piece_bytes_ = 0;  // what one write(2) takes without blocking once poll(2) allows it
};

}  // namespace gantry::cli
