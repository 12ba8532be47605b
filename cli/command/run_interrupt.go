package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
)

// firstInterrupt returns a channel that receives a value when a signal cancels the context of the command. The value
// reports whether a person sent the signal: programs send SIGTERM.
func firstInterrupt(ctx context.Context) <-chan bool {
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	interrupts := make(chan bool, 1)
	context.AfterFunc(ctx, func() {
		select {
		case <-terminate:
			interrupts <- false
		default:
			interrupts <- true
		}
	})
	return interrupts
}

// laterInterrupts returns a channel like that of firstInterrupt for the signals after the first one.
func laterInterrupts() <-chan bool {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	interrupts := make(chan bool)
	go func() {
		for s := range signals {
			interrupts <- s == os.Interrupt
		}
	}()
	return interrupts
}

// choice is what happens to a job after an interrupt.
type choice string

const (
	detach choice = "detach"
	pause  choice = "pause"
	remove choice = "delete"
	goOn   choice = "continue"
)

// choose asks what to do with a job. In a pipe, or if no person has sent the signal, it detaches with an error.
func (e *environment) choose(s *console, job jobs.Job, byPerson bool) (choice, error) {
	if in := ttyOf(e.In); in != nil && s.terminal != nil && byPerson {
		return s.ask(in, job)
	}
	return detach, failure{code: exitInterrupted, error: errInterrupted}
}

// act does with a job what the user has chosen. Another Ctrl-C ends the command.
func (c *cluster) act(ctx context.Context, s *console, job jobs.Job, choice choice) error {
	signal.Reset(os.Interrupt, syscall.SIGTERM)
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

// goesOn returns a message that a job goes on, and how to see it again.
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

// ask asks what to do with a job, and reads one key from a terminal. In the meantime, nothing else is printed.
func (s *console) ask(in *os.File, job jobs.Job) (choice, error) {
	release := s.hold()
	defer release()
	// Another Ctrl-C is a key now, and not a signal.
	descriptor := int(in.Fd())
	state, err := term.MakeRaw(descriptor)
	if err != nil {
		return detach, err
	}
	defer func() { _ = term.Restore(descriptor, state) }() // the shell restores it, too
	const question = "\r\n%s: [d]etach and let it go on (default), [p]ause, delete [x], or [c]ontinue here? "
	if _, err := fmt.Fprintf(s.errOut, question, job.Ref()); err != nil {
		return detach, err
	}
	for key := make([]byte, 1); ; {
		if _, err := in.Read(key); err != nil {
			key[0] = keyCtrlD
		}
		if chosen, ok := choiceOf(key[0]); ok {
			_, err := fmt.Fprintf(s.errOut, "%s\r\n", chosen)
			return chosen, err
		}
	}
}

// choiceOf returns the choice that a key makes.
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
	if err := c.Patch(writing, job.Job, client.RawPatch(types.MergePatchType, pausePatch(job))); err != nil {
		return fmt.Errorf("%s cannot be paused: %w", job.Ref(), err)
	}
	s.message("Pausing %s until its pods are gone. Ctrl-C does not stop this", job.Ref())
	err := c.observeJob(ctx, job, func(now *jobs.Job) (bool, error) {
		if now == nil {
			return false, fmt.Errorf("%s was deleted meanwhile", job.Ref())
		}
		waitsFor, err := jobs.IsPaused(*now)
		return waitsFor == "", err
	})
	if ended, ok := errors.AsType[*jobs.EndError](err); ok {
		s.message("%v", ended)
		return nil
	}
	if err == nil {
		s.message("%s is paused. To continue it: kubectl train resume %s", job.Ref(), job.Typed())
	}
	return err
}
