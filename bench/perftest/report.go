package perftest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Settings are what perftest chooses by default for a device, an operation and a size.
type Settings struct {
	Depth      int `json:"depth"`      // requests in the send queue
	Moderation int `json:"moderation"` // one request in this many has a completion
	Inline     int `json:"inline"`     // largest message that is sent inline, in bytes
	MTU        int `json:"mtu"`        // path MTU in bytes
}

// Report is the result that a program of perftest prints at its end.
type Report struct {
	Settings
	Size, Iterations int
	Figure           float64 // in the unit of the operation
}

// ErrClock means that a program of perftest failed to measure the frequency of the cycle counter, because the machine was busy.
// The next try may succeed.
var ErrClock = errors.New("it could not measure the frequency of the cycle counter")

// joinTitleWords replaces the space in column titles of two words.
var joinTitleWords = strings.NewReplacer("BW ", "BW_", "% ", "%_")

// ParseReport parses the standard output of the client of one of perftest's programs. It returns an error if the output is
// truncated.
func (op Op) ParseReport(text string) (Report, error) {
	r := Report{Settings: Settings{Depth: 1, Moderation: 1}}
	var titles, cells []string
	ended := false
	for line := range strings.Lines(text) {
		switch {
		case !strings.HasSuffix(line, "\n"):
		case cells != nil:
			ended = ended || isTableEnd(line)
		case titles != nil:
			cells = strings.Fields(line)
		case strings.HasPrefix(line, " #bytes"):
			titles = strings.Fields(joinTitleWords.Replace(line))
		default:
			if err := r.setting(line); err != nil {
				return Report{}, err
			}
		}
	}
	if !ended {
		return Report{}, errors.New("the output ends before its table is complete")
	}
	if len(titles) != len(cells) {
		return Report{}, fmt.Errorf("the table has %d titles but %d cells", len(titles), len(cells))
	}
	return r, r.row(op, titles, cells)
}

// isTableEnd reports whether a line is the one that closes a table.
func isTableEnd(line string) bool {
	const atLeast = 40
	return len(line) > atLeast && strings.Trim(line, "-") == "\n"
}

// setting parses a line such as " TX depth        : 128".
func (r *Report) setting(line string) error {
	key, value, _ := strings.Cut(line, ":")
	to, least := (*int)(nil), 0
	switch strings.TrimSpace(key) {
	case "TX depth":
		to, least = &r.Depth, 1
	case "CQ Moderation":
		to, least = &r.Moderation, 1
	case "Max inline data":
		to = &r.Inline
	case "Mtu":
		to = &r.MTU
	default:
		return nil
	}
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), "[B]"))
	if err != nil || n < least {
		return fmt.Errorf("the line %q has no valid number", strings.TrimSpace(line))
	}
	*to = n
	return nil
}

// row parses the line of figures.
func (r *Report) row(op Op, titles, cells []string) (err error) {
	cell := func(names ...string) float64 {
		i := slices.IndexFunc(titles, func(t string) bool { return slices.Contains(names, t) })
		if i < 0 {
			err = errors.Join(err, fmt.Errorf("the table has no column %s", names[0]))
			return 0
		}
		x, e := strconv.ParseFloat(cells[i], 64)
		const most = 1e15
		switch {
		case strings.HasSuffix(cells[i], "nan") || math.IsInf(x, 0): // C writes -nan
			e = ErrClock
		case e == nil && (x < 0 || x > most):
			e = fmt.Errorf("%s is not a valid figure", cells[i])
		}
		err = errors.Join(err, e)
		return x
	}
	r.Size, r.Iterations = int(cell("#bytes")), int(cell("#iterations"))
	const mib, few = 1 << 20, 4 << 10
	switch {
	case !op.rate:
		r.Figure = cell("t_typical[usec]")
	case r.Size < few: // the bandwidth is printed with two decimals, the message rate with six
		r.Figure = cell("MsgRate[Mpps]") * float64(r.Size)
	default:
		r.Figure = cell("BW_average[MB/sec]", "BW_average[MiB/sec]") * mib / 1e6
	}
	if err == nil && r.Figure == 0 {
		err = ErrClock
	}
	if err != nil {
		return fmt.Errorf("parse the table: %w", err)
	}
	return nil
}
