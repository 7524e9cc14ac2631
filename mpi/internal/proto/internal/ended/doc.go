// Package ended knows which contexts have ended.
//
// The number of a context is used again. The rest of a context is a generation, which counts how
// often the number was used before:
//
//	generation | number, [NumberBits] of it
//
// Processes agree on the generation of the next context with a number, and generations wrap around.
// A message of an earlier generation may still arrive, and is not matched any more. A message of a
// later one may arrive before this process knows that context.
//
// The caller holds the lock of the engine.
package ended
