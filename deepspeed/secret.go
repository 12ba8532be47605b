package deepspeed

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/deepspeed/api/v1beta1"
)

// NewSecret returns a Secret with the key pair by which the workers of a job authenticate each other. All ssh servers
// and clients of the job use this key, and the servers accept no other key.
func (deepspeed) NewSecret(*v1beta1.DeepSpeedJob) (*corev1.Secret, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		Type:      corev1.SecretTypeSSHAuth,
		Immutable: new(true),
		Data:      map[string][]byte{corev1.SSHAuthPrivateKey: pem.EncodeToMemory(block)},
	}, nil
}

// SecretName returns the name of the job's Secret. It contains the UID of the job, so that no other job uses the same
// Secret.
func (deepspeed) SecretName(job *v1beta1.DeepSpeedJob) string {
	return job.Name + "-ssh-" + string(job.UID)
}
