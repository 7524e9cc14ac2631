package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/perf"
)

// scaled formats a value with three digits and the largest unit in which it is at least 1.
func scaled(v float64, units []string, step float64) string {
	i := 0
	for i < len(units)-1 && math.Abs(v) >= 999.5 {
		v /= step
		i++
	}
	return digits(v) + " " + units[i]
}

// digits formats a number with three digits.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case a >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// duration formats seconds: 1.50 us, 12.3 ms, 4.20 s, 3m12s.
func duration(seconds float64) string {
	switch {
	case seconds == 0:
		return "0 s"
	case seconds < 60:
		return strings.Replace(scaled(seconds*1e9, []string{"ns", "us", "ms", "s"}, 1000), ".00 ns", " ns", 1)
	}
	s := int64(math.Round(seconds))
	if s < 3600 {
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh%02dm", s/3600, s%3600/60)
}

// size formats bytes: 512 B, 12.3 MB.
func size(bytes float64) string {
	if bytes < 1000 {
		return strconv.FormatFloat(bytes, 'f', 0, 64) + " B"
	}
	return scaled(bytes, []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}, 1000)
}

// count formats a number with separators: 1,234,567.
func count(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// percent formats a share from 0 to 1.
func percent(share float64) string {
	if share > 0 && share < 0.0995 {
		return strconv.FormatFloat(100*share, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(100*share, 'f', 0, 64) + " %"
}

// formatLength formats a class of the lengths of long messages, given its largest length; -1 is the class without a limit.
func formatLength(maxBytes int) string {
	if maxBytes < 0 {
		return strings.Replace(formatClass(perf.LongestClass), "<=", ">", 1)
	}
	return formatClass(maxBytes)
}

// formatClass formats a size class, given its largest size; -1 is the class without a limit.
func formatClass(maxBytes int) string {
	switch {
	case maxBytes < 0:
		return "> 16 MiB"
	case maxBytes >= 1<<20:
		return fmt.Sprintf("<= %d MiB", maxBytes>>20)
	case maxBytes >= 1<<10:
		return fmt.Sprintf("<= %d KiB", maxBytes>>10)
	}
	return fmt.Sprintf("<= %d B", maxBytes)
}
