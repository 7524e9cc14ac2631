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

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/tracemerge"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/profile"
	"golang.org/x/sys/unix"
)

// What a node sends to node 0 of what its ranks have recorded: so much at a time, and so much altogether. If it has more it
// writes files of its own.
const (
	chunkBytes   = 512 << 10
	maxNodeBytes = 16 << 20
)

// RecordingSet is what is written when the job has ended: the ranks of node 0, and what came from the others.
type RecordingSet struct {
	streams map[recordingKey]*bytes.Buffer
	bytes   map[int]int // of each node
}

// recordingKey is one of the two things that a rank leaves.
type recordingKey struct {
	rank    int
	profile bool
}

// Add takes a piece of a rank on a node.
func (c *RecordingSet) Add(node, rank int, p *protocol.RecordingChunk) error {
	if c.streams == nil {
		c.streams, c.bytes = map[recordingKey]*bytes.Buffer{}, map[int]int{}
	}
	if c.bytes[node] += len(p.Data); c.bytes[node] > maxNodeBytes {
		return fmt.Errorf("its ranks have recorded more than the %d bytes that a node sends", maxNodeBytes)
	}
	s := recordingKey{rank, p.Profile}
	if c.streams[s] == nil {
		c.streams[s] = new(bytes.Buffer)
	}
	c.streams[s].Write(p.Data)
	return nil
}

// OfRank returns what has come of a rank on a node.
func (c *RecordingSet) OfRank(rank int, node string) (r tracemerge.Rank, err error) {
	r = tracemerge.Rank{Rank: rank, Node: node}
	var errTrace, errProfile error
	r.Trace, errTrace = c.unpack(recordingKey{rank, false}, perf.TraceBytes)
	r.Profile, errProfile = c.unpack(recordingKey{rank, true}, profile.Bytes)
	return r, errors.Join(errTrace, errProfile)
}

func (c *RecordingSet) unpack(s recordingKey, most int64) ([]byte, error) {
	b := c.streams[s]
	if b == nil {
		return nil, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("what rank %d has recorded: %w", s.rank, err)
	}
	text, err := io.ReadAll(io.LimitReader(z, most))
	if err != nil {
		return nil, fmt.Errorf("what rank %d has recorded: %w", s.rank, err)
	}
	return text, nil
}

// SplitRecordings cuts what the ranks of a node have left for the way to node 0; ok is false if it is too much.
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
	z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // a level that there is
	z.Write(b)                                        // memory does not fail
	z.Close()
	return out.Bytes()
}

// fileFormat makes a file of what ranks have left, and returns what the user should know of it.
type fileFormat func(to io.Writer, ranks []tracemerge.Rank) (told []string, err error)

// WriteRecordings writes the files that the user has asked for. What goes wrong is told, and has no part in how the job ended.
func WriteRecordings(s console.Streams, o *cli.Options, ranks []tracemerge.Rank, suffix string) {
	for _, f := range []struct {
		name, what, look string
		write            fileFormat
	}{
		{o.Profile, "profile", "go tool pprof %s", tracemerge.Profiles},
		{o.Trace, "trace", "https://ui.perfetto.dev opens %s", tracemerge.Timeline},
	} {
		if f.name == "" {
			continue
		}
		name := withSuffix(f.name, suffix)
		told, err := writeFile(name, ranks, f.write)
		for _, line := range told {
			s.Say("%s: %s", f.what, line)
		}
		if err != nil {
			s.Say("no %s of this job: %v", f.what, err)
			continue
		}
		s.Say("%s: "+f.look, f.what, name)
	}
}

// withSuffix puts a suffix before the extension of a file.
func withSuffix(name, suffix string) string {
	ext := filepath.Ext(name)
	return strings.TrimSuffix(name, ext) + suffix + ext
}

// writeFile makes a file whole or not at all.
func writeFile(name string, ranks []tracemerge.Rank, write fileFormat) (told []string, err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return nil, err
	}
	told, err = write(f, ranks)
	if err == nil {
		err = f.Chmod(0o644)
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return told, err
}

// CheckFiles finds out before the job starts whether its files can be written when it has ended.
func CheckFiles(o *cli.Options) error {
	for _, name := range []string{o.Profile, o.Trace} {
		if name == "" {
			continue
		}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			return exitcode.Errorf(exitcode.UsageError, "%s is a directory, and should be a file to write", name)
		}
		if err := unix.Access(filepath.Dir(name), unix.W_OK|unix.X_OK); err != nil {
			return exitcode.Errorf(exitcode.UsageError, "write %s: %w", name, err)
		}
	}
	return nil
}
