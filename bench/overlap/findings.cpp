#include "findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "../support/report/findings.hpp"
#include "contest.hpp"
#include "mpi_ranks.hpp"
#include "validation.hpp"

namespace gantry::bench {
namespace {

bool is_limit(std::string_view subject) {
  return subject.starts_with("limit/");
}

std::vector<const Row*> times_of(const Report& report, const std::string& case_name) {
  std::vector<const Row*> rows;
  for (const Row& row : report.rows)
    if (row.case_name == case_name && row.metric == kLatencyP50 && !is_limit(row.subject) &&
        row.subject != kChosen && row.subject != kByCosts)
      rows.push_back(&row);
  return rows;
}

/// The longer of the two limits.
void add_ideal(Report& report, const std::string& case_name) {
  const Row* const product = report.find(case_name, kProductAlone, kLatencyP50);
  const Row* const transfer = report.find(case_name, kTransferAlone, kLatencyP50);
  if (product == nullptr || transfer == nullptr) return;
  const bool is_product = product->summary.value > transfer->summary.value;
  Row ideal = is_product ? *product : *transfer;
  ideal.subject = kIdeal;
  report.rows.push_back(ideal);
  std::vector<Row> shares;
  for (const Row* row : times_of(report, case_name)) {
    double share = ideal.summary.value / row->summary.value;
    shares.push_back({case_name, row->subject, 0, kShare, "1", summarize({&share, 1})});
  }
  for (Row& share : shares) report.rows.push_back(std::move(share));
}

void add_errors(Report& report, const std::string& case_name, Ratios& ratios) {
  const PredictionErrors errors = errors_of(report, case_name);
  if (errors.empty()) return;
  ratios.figure(case_name + ": median error of the prediction", median_error(errors),
                Bar::at_most(kMostMedianError));
  ratios.figure(case_name + ": 90th percentile of it", error_90(errors),
                Bar::at_most(kMostError90));
}

double least_against_serial(double ratio, unsigned ranks, Topology topology) {
  if (topology == Topology::switched) return 1.0;
  if (ratio == 1) return 1.45;
  return ranks == 4 && (ratio == 0.5 || ratio == 2) ? 1.25 : 1.0;
}

double least_against_ring(double ratio, unsigned ranks, Topology topology) {
  if (ratio != 1) return topology == Topology::switched ? 0.97 : 0;
  if (topology == Topology::switched) return 1.05;
  return ranks == 2 ? 1.2 : 2.2;
}

}  // namespace

void add_overlap_findings(Report& report, const Settings& settings) {
  Ratios ratios(report);
  for (const Topology topology : settings.topologies)
    for (const double ratio : settings.ratios) {
      const std::string name = case_name(settings, topology, ratio);
      add_ideal(report, name);
      const Row* best = nullptr;
      const Row* mpi = nullptr;
      for (const Row* row : times_of(report, name))
        if (row->subject.starts_with(kOpenMpi)) {
          if (mpi == nullptr || row->summary.value < mpi->summary.value) mpi = row;
        } else if (best == nullptr || row->summary.value < best->summary.value)
          best = row;
      if (best == nullptr) continue;
      const Row fastest = *best;  // rows move
      const std::optional<Row> peer = mpi == nullptr ? std::nullopt : std::optional(*mpi);
      ratios.of_rows(fmt::format("{}: serial / best ({})", name, fastest.subject),
                     report.find(name, kSerial, kLatencyP50), &fastest,
                     Bar::at_least(least_against_serial(ratio, settings.op.ranks, topology)));
      ratios.of_rows(fmt::format("{}: ring / best", name), report.find(name, kRing, kLatencyP50),
                     &fastest,
                     Bar::at_least(least_against_ring(ratio, settings.op.ranks, topology)));
      ratios.of_rows(fmt::format("{}: ideal / best", name), report.find(name, kIdeal, kLatencyP50),
                     &fastest, Bar::at_least(0.72));
      const Row* const chosen = report.find(name, kChosen, kLatencyP50);
      ratios.of_rows(name + ": chosen / best", chosen, &fastest, Bar::at_most(1.02));
      ratios.of_rows(name + ": serial / chosen", report.find(name, kSerial, kLatencyP50), chosen,
                     Bar::at_least(0.97));
      if (peer)
        ratios.of_rows(fmt::format("{}: {} / chosen", name, peer->subject), &*peer, chosen,
                       Bar::at_least(1));
      ratios.of_rows(name + ": chosen-by-costs / best", report.find(name, kByCosts, kLatencyP50),
                     &fastest, Bar::none());
      add_errors(report, name, ratios);
    }
}

}  // namespace gantry::bench
