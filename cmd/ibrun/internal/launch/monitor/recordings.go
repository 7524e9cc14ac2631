package monitor

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/outfile"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/tracemerge"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/profile"
)

// Limits of the traces and profiles that a node sends to the coordinator, in bytes: for one chunk,
// and for all ranks of the node. A node that exceeds the second limit writes files of its own.
const (
	chunkBytes   = 512 << 10
	maxNodeBytes = 16 << 20
)

// RecordingSet contains the traces and profiles that other nodes have sent to the coordinator,
// until files are written at the end of the job.
type RecordingSet struct {
	streams map[recordingKey]*bytes.Buffer
	bytes   map[int]int // received bytes, by node
}

// recordingKey identifies the trace or the profile of a rank.
type recordingKey struct {
	rank    int
	profile bool
}

// Add stores a chunk of a rank's trace or profile, sent by a node.
func (set *RecordingSet) Add(node, rank int, p *protocol.RecordingChunk) error {
	if set.streams == nil {
		set.streams, set.bytes = map[recordingKey]*bytes.Buffer{}, map[int]int{}
	}
	if set.bytes[node] += len(p.Data); set.bytes[node] > maxNodeBytes {
		return fmt.Errorf("it sent more than %d bytes of traces and profiles", maxNodeBytes)
	}
	s := recordingKey{rank, p.Profile}
	if set.streams[s] == nil {
		set.streams[s] = new(bytes.Buffer)
	}
	set.streams[s].Write(p.Data)
	return nil
}

// OfRank returns what has been received of a rank on a node.
func (set *RecordingSet) OfRank(rank int, node string) (r tracemerge.Rank, err error) {
	r = tracemerge.Rank{Rank: rank, Node: node}
	var errTrace, errProfile error
	r.Trace, errTrace = set.unpack(recordingKey{rank, false}, perf.TraceBytes)
	r.Profile, errProfile = set.unpack(recordingKey{rank, true}, profile.Bytes)
	return r, errors.Join(errTrace, errProfile)
}

func (set *RecordingSet) unpack(s recordingKey, most int64) ([]byte, error) {
	b := set.streams[s]
	if b == nil {
		return nil, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("unpack the records of rank %d: %w", s.rank, err)
	}
	text, err := io.ReadAll(io.LimitReader(z, most))
	if err != nil {
		return nil, fmt.Errorf("unpack the records of rank %d: %w", s.rank, err)
	}
	return text, nil
}

// SplitRecordings compresses the traces and profiles of this node's ranks and passes them to send in chunks. ok is false if
// they are too large to be sent.
func SplitRecordings(ranks []tracemerge.Rank, send func(rank int, p *protocol.RecordingChunk)) (ok bool) {
	type packed struct {
		recordingKey
		data []byte
	}
	var all []packed
	total := 0
	for _, r := range ranks {
		for _, b := range []packed{{recordingKey{r.Rank, false}, r.Trace}, {recordingKey{r.Rank, true}, r.Profile}} {
			if len(b.data) == 0 {
				continue
			}
			b.data = compress(b.data)
			if total += len(b.data); total > maxNodeBytes {
				return false
			}
			all = append(all, b)
		}
	}
	for _, b := range all {
		for piece := range slices.Chunk(b.data, chunkBytes) {
			send(b.rank, &protocol.RecordingChunk{Profile: b.profile, Data: piece})
		}
	}
	return true
}

func compress(b []byte) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // the level is valid
	z.Write(b)                                        // writing to memory does not fail
	z.Close()
	return out.Bytes()
}

// fileFormat writes a file from the records of all ranks. It returns lines for the user.
type fileFormat func(to io.Writer, ranks []tracemerge.Rank) (notes []string, err error)

// Write writes the files from the records of the ranks, with the suffix before the extensions of
// their names. Errors are printed and do not affect the outcome of the job.
func (files RecordingFiles) Write(s console.Streams, ranks []tracemerge.Rank, suffix string) {
	for _, f := range []struct {
		name, kind, hint string
		write            fileFormat
	}{
		{files.Profile, "profile", "go tool pprof %s", tracemerge.Profiles},
		{files.Trace, "trace", "https://ui.perfetto.dev opens %s", tracemerge.Timeline},
	} {
		if f.name == "" {
			continue
		}
		name := withSuffix(f.name, suffix)
		notes, err := writeFile(name, ranks, f.write)
		for _, line := range notes {
			s.Warn("the "+f.kind+" is not complete", console.Attrs{File: name, Text: f.kind + ": " + line})
		}
		if err != nil {
			s.Warn("no "+f.kind+" of this job", console.Attrs{File: name, Error: err.Error()})
			continue
		}
		s.Info("the "+f.kind+" was written", console.Attrs{File: name, Text: f.kind + ": " + fmt.Sprintf(f.hint, name)})
	}
}

// withSuffix inserts a suffix before the extension of a file name.
func withSuffix(name, suffix string) string {
	ext := filepath.Ext(name)
	return strings.TrimSuffix(name, ext) + suffix + ext
}

// writeFile writes a file completely or not at all.
func writeFile(name string, ranks []tracemerge.Rank, write fileFormat) (notes []string, err error) {
	err = outfile.Write(name, func(f *os.File) (err error) {
		notes, err = write(f, ranks)
		return err
	})
	return notes, err
}

// Check reports, before the job starts, whether the files can be written.
func (files RecordingFiles) Check() error {
	for _, name := range []string{files.Profile, files.Trace} {
		if name == "" {
			continue
		}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			return exitcode.Errorf(exitcode.UsageError, "%s is a directory; write the name of a file", name)
		}
		if err := unix.Access(filepath.Dir(name), unix.W_OK|unix.X_OK); err != nil {
			return exitcode.Errorf(exitcode.UsageError, "write %s: %w", name, err)
		}
	}
	return nil
}
