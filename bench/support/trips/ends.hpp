#pragma once  // bench/support/trips/ends.hpp: what the processes of a case do with their commands.

#include "../process/link.hpp"
#include "subject.hpp"

namespace gantry::bench {

/// Opens an end; it is opened before the process takes orders.
using OpenRequester = std::function<Result<std::unique_ptr<Requester>>()>;
using OpenResponder = std::function<Result<std::unique_ptr<Responder>>()>;

/// Opens the asking end, then makes the trips of each command and times them, until the link ends.
void run_requester(Link& link, const OpenRequester& open, const Case& what);

/// Opens an answering end, then serves the trips of each command, until the link ends.
void run_responder(Link& link, const OpenResponder& open);

}  // namespace gantry::bench
