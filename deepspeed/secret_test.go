package deepspeed

import (
	"crypto/ed25519"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
)

func newSecret(t *testing.T) *corev1.Secret {
	t.Helper()
	secret, err := deepspeed{}.NewSecret(jobOf(running(), training()))
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	return secret
}

func TestNewSecret(t *testing.T) {
	t.Parallel()
	secret := newSecret(t)
	want := &corev1.Secret{Type: "kubernetes.io/ssh-auth", Immutable: new(true)}
	if diff := cmp.Diff(want, secret, cmpopts.IgnoreFields(corev1.Secret{}, "Data")); diff != "" {
		t.Errorf("unexpected Secret (-want +got):\n%s", diff)
	}
	if len(secret.Data) != 1 {
		t.Errorf("the Secret has %d keys, want 1", len(secret.Data))
	}
	key, err := ssh.ParseRawPrivateKey(secret.Data["ssh-privatekey"])
	if err != nil {
		t.Fatalf("the key cannot be read: %v", err)
	}
	if _, ok := key.(*ed25519.PrivateKey); !ok {
		t.Errorf("the key is a %T, want an ed25519 key", key)
	}
}

func TestNewSecretHasADifferentKeyEachTime(t *testing.T) {
	t.Parallel()
	first, second := newSecret(t), newSecret(t)
	if cmp.Equal(first.Data, second.Data) {
		t.Error("the keys of two Secrets are the same")
	}
}

func TestSecretNameContainsTheUIDOfTheJob(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff("job-ssh-job-uid", deepspeed{}.SecretName(jobOf(running(), training()))); diff != "" {
		t.Errorf("unexpected name (-want +got):\n%s", diff)
	}
}
