package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"tensorstack.dev/jobs/cli/jobs"
)

// choice is the choice of the user about a job after an interrupt.
type choice string

const (
	detach choice = "detach"
	pause  choice = "pause"
	remove choice = "delete"
	goOn   choice = "continue"
)

// choose asks the user what to do with a job. It returns the choice detach and an error if the command has no
// terminal, if a program has sent the signal, or if another signal arrives before the answer.
func (e *environment) choose(s *console, job jobs.Job, byPerson bool, signals <-chan os.Signal) (choice, error) {
	if in := ttyOf(e.In); in != nil && s.terminal != nil && byPerson {
		return s.ask(in, job, signals)
	}
	return detach, errInterrupted
}

// act carries out the choice of the user.
func (c *cluster) act(ctx context.Context, s *console, job jobs.Job, choice choice) error {
	ctx = context.WithoutCancel(ctx)
	switch choice {
	case pause:
		return pauseJob(ctx, c, s, job)
	case remove:
		ctx, cancel := write(ctx)
		defer cancel()
		if err := c.Delete(ctx, job.Job, deleteOptions(job.GetUID())); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s cannot be deleted: %w", job.Ref(), err)
		}
		s.message("%s is deleted", job.Ref())
	case detach:
		s.message("%s", goesOn(job))
	case goOn:
	}
	return nil
}

// goesOn returns the message that a job goes on. It names the commands that show the job again.
func goesOn(job jobs.Job) string {
	return fmt.Sprintf("%s goes on. To see it again: kubectl train watch %[2]s, kubectl train logs -f %[2]s",
		job.Ref(), job.Typed())
}

// The keys that answer a question.
const (
	keyCtrlC  = 3
	keyCtrlD  = 4
	keyEscape = 27
)

// Question asks what to do with a job after Ctrl-C. The terminal shows it after the name of the job.
const Question = "[d]etach (default), [p]ause, delete [x] or [c]ontinue here? "

// ask asks what to do with a job, and waits for a key of a terminal or for a signal. In the meantime, nothing else is
// printed.
func (s *console) ask(in *os.File, job jobs.Job, signals <-chan os.Signal) (choice, error) {
	release := s.hold()
	defer release()
	// In raw mode, Ctrl-C is a key and not a signal.
	descriptor := int(in.Fd())
	state, err := term.MakeRaw(descriptor)
	if err != nil {
		return detach, err
	}
	defer func() { _ = term.Restore(descriptor, state) }() // an error is harmless: the shell also restores the terminal
	if _, err := fmt.Fprintf(s.errOut, "\r\n%s: %s", job.Ref(), Question); err != nil {
		return detach, err
	}
	answer := make(chan choice, 1)
	go func() { answer <- readChoice(in) }() // after a signal, this goroutine ends with the program
	select {
	case chosen := <-answer:
		_, err := fmt.Fprintf(s.errOut, "%s\r\n", chosen)
		return chosen, err
	case <-signals:
		_, err := fmt.Fprint(s.errOut, "\r\n")
		return detach, errors.Join(errInterrupted, err)
	}
}

// readChoice reads keys until one of them makes a choice. The end of the input counts as Ctrl-D.
func readChoice(in io.Reader) choice {
	for key := make([]byte, 1); ; {
		if _, err := in.Read(key); err != nil {
			key[0] = keyCtrlD
		}
		if chosen, ok := choiceOf(key[0]); ok {
			return chosen
		}
	}
}

// choiceOf returns the choice that a key makes, and false if the key makes none.
func choiceOf(key byte) (choice, bool) {
	switch key {
	case 'd', 'D', '\r', '\n', keyCtrlC, keyCtrlD, keyEscape:
		return detach, true
	case 'p', 'P':
		return pause, true
	case 'x', 'X':
		return remove, true
	case 'c', 'C':
		return goOn, true
	}
	return "", false
}

// pauseJob pauses a job, and waits until its pods are gone.
func pauseJob(ctx context.Context, c *cluster, s *console, job jobs.Job) error {
	writing, cancel := write(ctx)
	defer cancel()
	if err := c.Patch(writing, job.Job, pausePatch(job)); err != nil {
		return fmt.Errorf("%s cannot be paused: %w", job.Ref(), err)
	}
	s.message("Pausing %s until its pods are gone. Ctrl-C does not stop this", job.Ref())
	err := c.awaitGoal(ctx, job, jobs.IsPaused, func(string) {})
	if ended, ok := errors.AsType[*jobs.EndError](err); ok {
		s.message("%v", ended)
		return nil
	}
	if err == nil {
		s.message("%s is paused. To continue it: kubectl train resume %s", job.Ref(), job.Typed())
	}
	return err
}
