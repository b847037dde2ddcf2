#pragma once

#include "train/feed.h"
#include "train/session.h"

namespace tessera::train {

/// Loss and metrics over a feed of program "evaluate", as keras.Model.evaluate: the loss is the mean of the batch
/// losses weighted by their rows. Collective.
Logs evaluate(Session& session, Feed& feed);

}  // namespace tessera::train
