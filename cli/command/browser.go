package command

import (
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/cli/browser"
)

// hasBrowser reports whether a browser can be opened for the user: the command runs in a terminal of a machine with a
// display.
func hasBrowser(in io.Reader, out io.Writer) bool {
	if terminalOf(in, out) == nil {
		return false
	}
	return runtime.GOOS == "darwin" || os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
}

// openBrowser opens an address in the browser of the user. If this fails, it asks the user to open the address.
func (e *environment) openBrowser(address string) {
	browser.Stdout, browser.Stderr = io.Discard, io.Discard
	if err := browser.OpenURL(address); err != nil {
		_, _ = fmt.Fprintf(e.ErrOut, "No browser could be opened (%v): open the address yourself.\n", err)
	}
}
