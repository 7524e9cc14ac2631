// Package output merges the output of several processes line by line.
//
// The agent merges that of the ranks of its node, and writes it to its own standard output and
// error, or to files. If the coordinator has started the other nodes, it merges what their agents
// and its own have merged. Each line has output of one rank only, except if the rank does not
// finish the line for too long.
package output
