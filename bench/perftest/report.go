package perftest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Settings are what perftest chooses by itself, for a device, an operation and a size.
type Settings struct {
	Depth      int `json:"depth"`      // requests in the send queue
	Moderation int `json:"moderation"` // each so many requests make one completion
	Inline     int `json:"inline"`     // messages of up to so many bytes go inline
	MTU        int `json:"mtu"`        // of the path, in bytes
}

// Report is what a program of perftest says at its end.
type Report struct {
	Settings
	Size, Iterations int
	Figure           float64 // in the unit of the operation
}

// ErrClock says that a program of perftest could not tell how fast the processor's cycle counter is, as happens when the
// machine is busy with something else. It may at the next try.
var ErrClock = errors.New("it could not find out how fast the cycle counter is")

// wider joins the words of a column's title.
var wider = strings.NewReplacer("BW ", "BW_", "% ", "%_")

// ParseReport reads what the client of one of perftest's programs wrote to its standard output. Output that ends early is
// an error.
func (op Op) ParseReport(text string) (Report, error) {
	r := Report{Settings: Settings{Depth: 1, Moderation: 1}}
	var titles, cells []string
	ended := false
	for line := range strings.Lines(text) {
		switch {
		case !strings.HasSuffix(line, "\n"):
		case cells != nil:
			ended = ended || isRule(line)
		case titles != nil:
			cells = strings.Fields(line)
		case strings.HasPrefix(line, " #bytes"):
			titles = strings.Fields(wider.Replace(line))
		default:
			if err := r.setting(line); err != nil {
				return Report{}, err
			}
		}
	}
	if !ended {
		return Report{}, errors.New("it ends before its table does")
	}
	if len(titles) != len(cells) {
		return Report{}, fmt.Errorf("its table has %d titles and %d cells", len(titles), len(cells))
	}
	return r, r.row(op, titles, cells)
}

// isRule tells whether a line is the one that closes a table.
func isRule(line string) bool {
	const atLeast = 40
	return len(line) > atLeast && strings.Trim(line, "-") == "\n"
}

// setting reads a line such as " TX depth        : 128".
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
		return fmt.Errorf("its line %q has no number", strings.TrimSpace(line))
	}
	*to = n
	return nil
}

// row reads the line of figures.
func (r *Report) row(op Op, titles, cells []string) (err error) {
	cell := func(names ...string) float64 {
		i := slices.IndexFunc(titles, func(t string) bool { return slices.Contains(names, t) })
		if i < 0 {
			err = errors.Join(err, fmt.Errorf("its table has no column %s", names[0]))
			return 0
		}
		x, e := strconv.ParseFloat(cells[i], 64)
		const most = 1e15
		switch {
		case strings.HasSuffix(cells[i], "nan") || math.IsInf(x, 0): // C writes -nan
			e = ErrClock
		case e == nil && (x < 0 || x > most):
			e = fmt.Errorf("%s cannot be a figure", cells[i])
		}
		err = errors.Join(err, e)
		return x
	}
	r.Size, r.Iterations = int(cell("#bytes")), int(cell("#iterations"))
	const mib, few = 1 << 20, 4 << 10
	switch {
	case !op.rate:
		r.Figure = cell("t_typical[usec]")
	case r.Size < few: // the bandwidth has two decimals, and the rate of messages six
		r.Figure = cell("MsgRate[Mpps]") * float64(r.Size)
	default:
		r.Figure = cell("BW_average[MB/sec]", "BW_average[MiB/sec]") * mib / 1e6
	}
	if err == nil && r.Figure == 0 {
		err = ErrClock
	}
	if err != nil {
		return fmt.Errorf("its table: %w", err)
	}
	return nil
}
