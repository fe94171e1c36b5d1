#pragma once  // inspection.hpp: what detect does to one batch, apart from receiving and sending.

#include "detector.hpp"
#include "messages.hpp"

namespace vision {

/// Results of one batch on their way into a message.
struct Findings {
  ResultHeader header;
  std::vector<TileResult> tiles;
  std::vector<Person> people;
  std::vector<TilePlace> inspected;
  std::vector<cv::Mat> pictures;  ///< BGR, one for each of `inspected`.
};

/// Reads the batch whole: figures for every tile, pictures of the tiles of `share` frames spread
/// over the batch. Afterwards the batch is no longer needed.
[[nodiscard]] Result<Findings> survey(const BatchView& batch, unsigned share);

/// Finds the people in the pictures and fills in the counts.
void find_people(const PeopleDetector& detector, Findings& findings);

/// Writes the message; `to` has result_bytes(findings.header).
void write(const Findings& findings, ByteSpan to);

}  // namespace vision
