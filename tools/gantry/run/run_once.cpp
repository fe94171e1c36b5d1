#include "run_once.hpp"

#include "run/process/leftovers.hpp"
#include "run/process/run_directory.hpp"

namespace gantry::run {

Result<RunReport> run_once(const Pipeline& pipeline, Transport transport, const std::string& base,
                           const SuperviseOptions& options, const cli::Interrupt& interrupt) {
  const Adoption adoption;
  const RaisedFileLimit file_limit;
  Result<RunDirectory> directory = RunDirectory::create(base, interrupt);
  if (!directory) return tl::unexpected(directory.error());
  Result<Guard> guard = Guard::start(directory->path());
  if (!guard) return tl::unexpected(guard.error());
  Result<Plan> plan = Plan::create(pipeline, transport, directory->path());
  if (!plan) return tl::unexpected(plan.error());
  const Result<Finished> finished = supervise(*plan, options, *guard, file_limit, interrupt);
  if (!finished) return tl::unexpected(finished.error());
  return make_report(*plan, *finished);
}

}  // namespace gantry::run
