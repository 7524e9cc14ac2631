// Package perfmem manages the shared memory in which the ranks of one node record what they do: counters, traces and profiles.
//
// ibrun creates the [Memory] and reads it; the agent inherits it and passes it to the ranks, which write it. So what a rank has
// recorded can be read after the rank was killed. The page of a rank can be sent to another node: see [Memory.Pack] and
// [DecodePage].
package perfmem
