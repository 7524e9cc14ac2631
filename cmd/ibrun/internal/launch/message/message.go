package message

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/ibrun/ibrun/internal/printable"
)

// Message is a message of ibrun itself.
type Message struct {
	Level slog.Level `json:"level"`
	// Msg is what has happened, without what differs from case to case.
	Msg string `json:"msg"`
	Origin
	Attrs
}

// Origin is where a message arises. Without a host it is the ibrun that prints the message.
type Origin struct {
	Job  string `json:"job,omitempty"` // empty: the nodes have not agreed on it yet
	Host string `json:"host"`
	Node int    `json:"node"`
}

// Attrs are the attributes of messages: what differs from case to case. Those that a message does not have are zero.
type Attrs struct {
	// The rank that the message is about, or the ranks, where it runs, and its process.
	Rank     *int   `json:"rank,omitempty"`
	Ranks    []int  `json:"ranks,omitempty"`
	RankNode *int   `json:"rank_node,omitempty"`
	RankHost string `json:"rank_host,omitempty"`
	PID      int    `json:"pid,omitempty"`
	Cores    string `json:"cores,omitempty"` // such as 0-3,8
	// How the rank has ended, the last call that is known of it, and the rank that has waited for it.
	RankExitCode *int   `json:"rank_exit_code,omitempty"`
	AbortCode    *int   `json:"abort_code,omitempty"` // that it has passed to Abort
	Call         string `json:"call,omitempty"`
	PeerRank     *int   `json:"peer_rank,omitempty"`
	LastOutput   string `json:"last_output,omitempty"`
	// A signal that a process has received.
	Signal     int    `json:"signal,omitempty"`
	SignalName string `json:"signal_name,omitempty"` // such as SIGKILL
	// Another node that the message is about, or other nodes.
	PeerNode  *int   `json:"peer_node,omitempty"`
	PeerNodes []int  `json:"peer_nodes,omitempty"`
	PeerHost  string `json:"peer_host,omitempty"`

	Address string   `json:"address,omitempty"`
	File    string   `json:"file,omitempty"`
	Files   []string `json:"files,omitempty"`
	Command string   `json:"command,omitempty"` // of a process

	// Progress is the sum over the ranks.
	Done             *uint64 `json:"done,omitempty"`
	Total            uint64  `json:"total,omitempty"`
	RemainingSeconds float64 `json:"remaining_seconds,omitempty"`
	// LimitSeconds is how long something may take.
	LimitSeconds float64 `json:"limit_seconds,omitempty"`
	// ExitCode is that of ibrun, and DurationSeconds how long the job took.
	ExitCode        *int    `json:"exit_code,omitempty"`
	DurationSeconds float64 `json:"duration_seconds,omitempty"`

	Dropped int `json:"dropped,omitempty"` // messages
	// Error is why something is not as it should be.
	Error string `json:"error,omitempty"`
	// Text is the message as text. Empty: it is Msg, followed by Error.
	Text string `json:"text,omitempty"`
}

// Line is a message in JSON.
type Line struct {
	Time time.Time `json:"time"`
	Message
}

// Lines returns the message as text, which is one line unless Text has several, and then the lines of LastOutput.
func (m *Message) Lines() []string {
	text := m.Text
	if text == "" {
		text = m.Msg
		if m.Error != "" {
			text += ": " + m.Error
		}
	}
	lines := []string{text}
	for line := range strings.Lines(m.LastOutput) {
		lines = append(lines, "  | "+strings.TrimSuffix(line, "\n"))
	}
	return lines
}

// JSON returns the message as a line of JSON with its newline. Characters that a terminal would not show are escaped.
func (m *Message) JSON(now time.Time) []byte {
	r := slog.NewRecord(now, m.Level, m.Msg, 0)
	if m.Job != "" {
		r.AddAttrs(slog.String("job", m.Job))
	}
	r.AddAttrs(slog.String("host", m.Host), slog.Int("node", m.Node))
	attrs := m.Attrs
	if attrs.Text == attrs.Error {
		attrs.Text = ""
	}
	r.AddAttrs(attrs.list()...)
	var b bytes.Buffer
	_ = slog.NewJSONHandler(&b, nil).Handle(context.Background(), r) // writing to memory does not fail
	return printable.JSON(b.Bytes())
}

// list returns the attributes that are not zero, under their names in JSON.
func (a Attrs) list() (all []slog.Attr) {
	v := reflect.ValueOf(a)
	for i := range v.NumField() {
		if f := v.Field(i); !f.IsZero() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			all = append(all, slog.Any(name, reflect.Indirect(f).Interface()))
		}
	}
	return all
}

// Decode parses a line that JSON has returned, without its newline. ok is false for any other line.
func Decode(text string) (m *Message, ok bool) {
	if !strings.HasPrefix(text, "{") { // most lines are not messages
		return nil, false
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	var l Line
	if err := d.Decode(&l); err != nil {
		return nil, false
	}
	_, err := d.Token()
	valid := errors.Is(err, io.EOF) && !l.Time.IsZero() && l.Msg != "" && l.Host != "" &&
		slices.Contains([]slog.Level{slog.LevelInfo, slog.LevelWarn, slog.LevelError}, l.Level)
	return &l.Message, valid
}
