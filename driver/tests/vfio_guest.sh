#!/usr/bin/env bash
# The driver over VFIO in a small virtual machine with an IOMMU (QEMU without KVM, half a minute). Run by hand.
#
#   driver/tests/vfio_guest.sh PACKAGES
#
# PACKAGES is a folder into which Debian's packages were unpacked: those of .ci/run's QEMU_PACKAGES, busybox-static,
# cpio, and the kernel that linux-image-cloud-amd64 depends on.
set -euo pipefail
packages=$(realpath "$1")
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

RUSTFLAGS="-C target-feature=+crt-static" cargo build -p grampus-driver --example vfio_guest \
    --target x86_64-unknown-linux-gnu --target-dir target/guest
mkdir -p "$work"/root/{bin,proc,sys,dev,modules}
cp "$(find "$packages" -path '*bin/busybox' -type f | head -1)" "$work/root/bin/busybox"
cp target/guest/x86_64-unknown-linux-gnu/debug/examples/vfio_guest "$work/root/guest"
modules="irqbypass vfio vfio_virqfd vfio_iommu_type1 vfio-pci-core vfio-pci"
for module in $modules; do
    cp "$(find "$packages/lib/modules" -name "$module.ko")" "$work/root/modules/"
done
cat >"$work/root/init" <<END
#!/bin/busybox sh
/bin/busybox mount -t proc none /proc
/bin/busybox mount -t sysfs none /sys
/bin/busybox mount -t devtmpfs none /dev
for module in $modules; do /bin/busybox insmod /modules/\$module.ko; done
for tenths in \$(/bin/busybox seq 100); do
    [ -b /dev/nvme0n1 ] && [ -b /dev/nvme1n1 ] && [ -b /dev/nvme2n1 ] && break
    /bin/busybox usleep 100000
done
for number in 0 1 2; do
    if /bin/busybox grep -q S2 /sys/class/nvme/nvme\$number/serial; then
        /bin/busybox mkswap /dev/nvme\${number}n1
        /bin/busybox swapon /dev/nvme\${number}n1
    fi
done
/guest
/bin/busybox dmesg | /bin/busybox grep DMAR.*fault
/bin/busybox poweroff -f
END
chmod +x "$work/root/init"
cpio=$(find "$packages" -path '*bin/cpio' -type f | head -1)
(cd "$work/root" && find . | "$cpio" --quiet -o -H newc | gzip -1 >"$work/initramfs")

# The byte at each offset, as the guest expects it.
python3 -c "
import sys
step = 0x9e3779b97f4a7c15
sys.stdout.buffer.write(bytes((i * step & (1 << 64) - 1) >> 56 for i in range(1 << 20)))" >"$work/image"
truncate -s 8M "$work/swap" "$work/files"
LD_LIBRARY_PATH=$packages/usr/lib/x86_64-linux-gnu:$packages/lib/x86_64-linux-gnu timeout -k 5 300 \
    "$packages/usr/bin/qemu-system-x86_64" -L "$packages/usr/share/qemu" -L "$packages/usr/share/seabios" \
    -machine q35,kernel-irqchip=split -accel tcg -cpu max -smp 2 -m 256 -nodefaults -display none -serial stdio \
    -no-reboot -device intel-iommu,intremap=on -kernel "$(find "$packages/boot" -name 'vmlinuz*')" \
    -initrd "$work/initramfs" -drive "file=$work/image,if=none,id=d,format=raw" -device nvme,serial=S1,drive=d \
    -drive "file=$work/swap,if=none,id=s,format=raw" -device nvme,serial=S2,drive=s \
    -drive "file=$work/files,if=none,id=f,format=raw" -device nvme,serial=S3,drive=f \
    -append "console=ttyS0 quiet panic=-1 intel_iommu=on" </dev/null | tee "$work/log"

grep -q "guest: passed" "$work/log"
if grep -q "DMAR.*fault" "$work/log"; then
    echo "the IOMMU reported a fault"
    exit 1
fi
# The guest wrote 4 KiB at LBA 1900.
python3 -c "
import sys
image = open(sys.argv[1], 'rb').read()
sys.exit(image[1900 * 512:1908 * 512] != b'\x5a' * 4096)" "$work/image"
echo passed
