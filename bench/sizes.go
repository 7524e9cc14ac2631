package bench

import "fmt"

// Ladder returns the sizes from low to high that a sweep measures: low itself, the powers of two between, and high.
func Ladder(low, high int) []int {
	if low > high {
		return nil
	}
	sizes := []int{low}
	for size := 1; size > 0 && size < high; size *= 2 {
		if size > low {
			sizes = append(sizes, size)
		}
	}
	if high > low {
		sizes = append(sizes, high)
	}
	return sizes
}

// FormatSize writes a number of bytes with the largest unit that divides it: 8 B, 64 KiB, 1 MiB.
func FormatSize(n int) string {
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB"}
	u := 0
	for n != 0 && n%1024 == 0 && u < len(units)-1 {
		n /= 1024
		u++
	}
	return fmt.Sprintf("%d %s", n, units[u])
}
