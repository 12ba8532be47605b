package screen

import (
	"context"
	"io"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"
)

// Show calls the function run, which shows pages, and draws the newest page in a terminal. It draws the page again
// every second, and when the user presses a key or changes the size of the terminal. When the user quits, the context
// of run ends. After the end of run, Show returns the last view, with the size of the terminal, and the key that the
// user pressed to quit.
func Show(
	ctx context.Context, in io.Reader, out io.Writer, run func(ctx context.Context, show func(Source)),
) (View, Key, error) {
	// No signal handler is needed here, because Main cancels the context after a signal. A low frame rate is enough,
	// because the pages arrive at least a quarter of a second apart. Only the reaction to keys is a little later.
	program := tea.NewProgram(model{now: time.Now()}, tea.WithContext(ctx), tea.WithInput(keys(in)), tea.WithOutput(out),
		tea.WithoutSignalHandler(), tea.WithFPS(20))
	running, stop := context.WithCancel(ctx)
	var pages sync.WaitGroup
	pages.Go(func() {
		run(running, func(page Source) { program.Send(page) }) // after the end of the program, Send does nothing
		program.Quit()
	})
	last, err := program.Run()
	stop()
	pages.Wait()
	m, _ := last.(model)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return m.view, m.key, err
}

// keys returns the input if it is a terminal, and otherwise nil. Without a terminal, there are no keys, and Ctrl-C
// arrives as a signal.
func keys(in io.Reader) io.Reader {
	if file, ok := in.(term.File); ok && term.IsTerminal(file.Fd()) {
		return in
	}
	return nil
}

// Key is the key that ended a program.
type Key int

// Keys that end a program.
const (
	// KeyNone means that the program ended without a key.
	KeyNone Key = iota
	// KeyQuit means that the user pressed q.
	KeyQuit
	// KeyInterrupt means that the user pressed Ctrl-C.
	KeyInterrupt
)

// model is the state of a program.
type model struct {
	source Source
	view   View
	now    time.Time
	key    Key
	// page is the page that the function source returns for the view. It is empty until the first source arrives.
	page Page
}

// clock is a message with the time at a full second.
type clock time.Time

// Init implements tea.Model.
func (m model) Init() tea.Cmd { return tick() }

// tick returns a command that sends the clock at the next full second.
func tick() tea.Cmd { return tea.Every(time.Second, func(t time.Time) tea.Msg { return clock(t) }) }

// Update implements tea.Model.
func (m model) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	var command tea.Cmd
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		m.view.Width, m.view.Height = message.Width, message.Height
	case Source:
		m.source, m.now = message, time.Now()
	case clock:
		m.now = time.Time(message)
		command = tick()
	case tea.KeyPressMsg:
		m, command = m.press(message.String())
	}
	if m.source != nil {
		m.page = m.source(m.view, m.now)
		m.view.Offset = min(max(m.view.Offset, 0), m.page.MaxOffset(m.view)) // the body can have become shorter
	}
	return m, command
}

// press returns the model after a key, and the command to run because of the key.
func (m model) press(key string) (model, tea.Cmd) {
	page := max(m.view.Height-6, 1)
	switch key {
	case "q", "esc":
		m.key = KeyQuit
		return m, tea.Quit
	case "ctrl+c":
		m.key = KeyInterrupt
		return m, tea.Quit
	case "ctrl+z":
		return m, tea.Suspend
	case "up", "k":
		m.view.Offset--
	case "down", "j":
		m.view.Offset++
	case "pgup", "b":
		m.view.Offset -= page
	case "pgdown", "space":
		m.view.Offset += page
	case "home", "g":
		m.view.Offset = 0
	case "end", "G":
		m.view.Offset = 1 << 20 // Update reduces the offset to its maximum
	}
	return m, nil
}

// View implements tea.Model.
func (m model) View() tea.View {
	text := "Reading the cluster…"
	if m.source != nil {
		text = m.page.Draw(m.view)
	}
	v := tea.NewView(text)
	v.AltScreen = true
	return v
}
