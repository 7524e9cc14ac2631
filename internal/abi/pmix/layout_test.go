package pmix

import (
	"path/filepath"
	"testing"

	"github.com/ibrun/ibrun/internal/abi/layout"
)

func TestLayout(t *testing.T) {
	headers := []string{"pmix.h"}
	dirs, err := filepath.Glob("/usr/lib/*/pmix2/include") // Debian's and Ubuntu's; other systems have it in /usr/include
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		headers = append(headers, "-I"+dir)
	}
	layout.Check(t, headers...)
}
