// Package monitor samples the ranks of a job while they run, and collects what they have recorded when they have exited.
//
// A [Monitor] exists in the ibrun of every node. It is the data source of the status server that ibrun ps, top and hang query,
// of the hang view on SIGUSR1, of the progress bar, and of the Prometheus metrics of its node. It samples the ranks of its own
// node from shared memory (package perfmem) and /proc, and queries the monitors of other nodes for theirs.
//
// A [NodeRecorder] describes the node for the report. A [RecordingSet] collects traces and profiles
// of the ranks from all nodes, and [RecordingFiles] are the files that the user asked for.
package monitor
