#pragma once  // tools/gantry/run/process/plan.hpp: the links of a pipeline, and what each process
              // gets.

#include <chrono>
#include <gantry/channel.hpp>
#include <gantry/stage.hpp>
#include <optional>

#include "run/file/pipeline.hpp"
#include "run/process/pipes.hpp"

namespace gantry::run {

/// One replica of a stage.
struct ProcessId {
  std::size_t stage = 0;
  unsigned replica = 0;
  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

/// What one end of a link has counted: in a page that its process writes, or on another host, which
/// tells now and then.
class Counters {
 public:
  [[nodiscard]] static Result<Counters> create() {
    return Metrics::create().map([](Metrics page) { return Counters(std::move(page)); });
  }
  Counters() = default;

  [[nodiscard]] int descriptor() const noexcept { return page_.descriptor(); }
  [[nodiscard]] MetricsReport report() const { return told_ ? *told_ : page_.report(); }
  void take(const MetricsReport& told) { told_ = told; }

 private:
  explicit Counters(Metrics page) noexcept : page_(std::move(page)) {}
  Metrics page_;
  std::optional<MetricsReport> told_;
};

/// Connects one sending process with one receiving process.
struct Link {
  std::size_t channel = 0;
  ProcessId from;
  ProcessId to;
  Counters sender;
  Counters receiver;
  Pipe pipe;            ///< Transport::pipe only, until close_pipes().
  std::string address;  ///< For other transports: see StageEndpoint::Link.
};

/// How a process is started; the plan owns the descriptors.
struct Launch {
  std::string label;  ///< "stage " and process_label(), as errors begin.
  std::string program;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::vector<int> descriptors;  ///< Descriptors that it inherits, under the same numbers.
  int input = -1;                ///< Its standard input; -1: /dev/null.
};

/// Which part of a pipeline a plan is for.
struct Placement {
  std::size_t host = kThisHost;  ///< The host whose stages are started by this process.
  /// By host: ADDRESS:PORT of its bridge. Empty where no stage is on another host.
  std::vector<std::string> bridges;
};

/// Every channel between M and N replicas has M x N links. Move-only.
class Plan {
 public:
  /// `directory` is the run's. The pipeline must outlive the plan.
  [[nodiscard]] static Result<Plan> create(const Pipeline& pipeline, Transport transport,
                                           std::string directory);

  [[nodiscard]] const Pipeline& pipeline() const noexcept { return *pipeline_; }
  [[nodiscard]] Transport transport() const noexcept { return transport_; }
  [[nodiscard]] const std::vector<Link>& links() const noexcept { return links_; }
  /// Of all hosts, in the same order there.
  [[nodiscard]] std::vector<ProcessId> processes() const;
  /// Whether it runs on the host of this plan.
  [[nodiscard]] bool is_here(ProcessId process) const noexcept {
    return pipeline_->stages[process.stage].host == placement_.host;
  }
  /// Call it before the first launch().
  void place(Placement placement) { placement_ = std::move(placement); }
  /// What an end of another host has counted.
  void take_counters(std::size_t link, bool sender, const MetricsReport& told) {
    (sender ? links_[link].sender : links_[link].receiver).take(told);
  }
  /// `join_within`: the ranks of a group have all joined by then.
  [[nodiscard]] Launch launch(ProcessId process, std::chrono::nanoseconds join_within) const;

  /// An end that `process` has not opened yet, as "input 'NAME'" or "output 'NAME'"; empty when
  /// it has opened all.
  [[nodiscard]] std::string unopened_end(ProcessId process) const;

  /// The channel of an output that `process` has opened and not closed; empty: there is none, or it
  /// saw the reader leave first.
  [[nodiscard]] std::string unclosed_output(ProcessId process) const;

  /// The channel of an input that `process` has opened and not received to its end; empty: there
  /// is none, or it saw the sender leave first.
  [[nodiscard]] std::string unread_input(ProcessId process) const;

  /// An end whose process left before its stream had ended.
  struct LeftEnd {
    ProcessId who;
    std::string channel;
    bool output = false;
    std::uint64_t left_ns = 0;  ///< MetricsReport::left_ns
  };
  /// The ends that the peers of `process` left, as it saw itself. A peer that saw `process` leave
  /// first has left nothing.
  [[nodiscard]] std::vector<LeftEnd> left_to(ProcessId process) const;

  /// Call it once all processes run: a pipe ends only when nobody else holds it.
  void close_pipes() noexcept;

 private:
  Plan(const Pipeline& pipeline, Transport transport, std::string directory)
      : pipeline_(&pipeline), transport_(transport), directory_(std::move(directory)) {}
  Result<void> add_links(std::size_t channel);
  Result<Link> make_link(std::size_t channel, unsigned from, unsigned to) const;
  std::vector<StageEndpoint> ends(ProcessId process) const;
  std::vector<Variable> variables(ProcessId process, std::chrono::nanoseconds join_within) const;
  StageEndpoint::Link describe(const Link& link, bool output) const;
  const Pipeline* pipeline_;
  Transport transport_;
  std::string directory_;
  Placement placement_;
  std::vector<Link> links_;
};

/// Whether `process` sends over `link`, and whether it receives over it.
[[nodiscard]] bool is_sender(const Link& link, ProcessId process) noexcept;
[[nodiscard]] bool is_receiver(const Link& link, ProcessId process) noexcept;

}  // namespace gantry::run
