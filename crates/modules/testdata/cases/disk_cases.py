"""Block devices."""

from record_calls import Said

CASES = []
FACTS = "\n".join(str(number) for number in range(12)) + "\n"


def add(fun, *args, says=None, **kwargs):
    for code in (0, 1):
        told = says or [("getro", Said(FACTS if not code else "", code)), ("", Said("", code, "refused" if code else ""))]
        CASES.append({"fun": "disk." + fun, "args": list(args), "kwargs": kwargs, "says": told})


add("dump", "/dev/x")
add("dump", "/dev/x", ["getra", "getro"])
for settings in ({"read-ahead": 1024}, {"filesystem-read-ahead": "8", "read-only": True}, {"read-write": "True"}, {"read-write": False}, {"odd": 1},
                 {"read-ahead": 5, "odd": 1, "read-only": "yes"}, {}):
    add("tune", "/dev/x", **settings)
    add("tune", "/dev/x", says=[("getro", Said(FACTS)), ("", Said(""))], **settings)
add("wipe", "/dev/x")
add("resize2fs", "/dev/x")
for fs_type in ("ext4", "xfs", "vfat", "btrfs"):
    add("format", "/dev/x", fs_type)
    add("format", "/dev/x", fs_type, inode_size=512, lazy_itable_init=1, fat=16, force=True)
    add("format", "/dev/x", fs_type, fat=3)
add("format", "/dev/x", says=[("sync", Said("", 1))])


def once(fun, *args, says=(), missing=(), answers=None, **kwargs):
    CASES.append({"fun": "disk." + fun, "args": list(args), "kwargs": kwargs, "says": list(says), "missing": list(missing), "answers": answers or {}})


KINDS = {"lsblk": "FSTYPE\next4\n", "bare": "FSTYPE\n\n", "df": "Filesystem     Type  1K-blocks  Used Available Use% Mounted on\n/dev/x   xfs  100  50  50  50% /srv\n"}
for says in ([("lsblk", Said(KINDS["lsblk"]))], [("lsblk", Said(KINDS["bare"])), ("df", Said(KINDS["df"]))],
             [("lsblk", Said("", 32, "lsblk: /dev/x: not a block device")), ("df", Said("", 1, "df: /dev/x: No such file or directory"))]):
    once("fstype", "/dev/x", says=says)
    once("get_fstype_from_path", "/srv/a", says=says, answers={"mount.get_device_from_path": "/dev/x"})
once("get_fstype_from_path", "/srv/a", answers={"mount.get_device_from_path": lambda path: None})
once("fstype", "/dev/x", says=[("df", Said(KINDS["df"]))], missing=["lsblk"])
once("fstype", "/dev/x", says=[("lsblk", Said(KINDS["bare"]))], missing=["df"])
once("fstype", "/dev/x", missing=["lsblk", "df"])
for fun in ("hdparms", "hpa"):
    once(fun, "/dev/x", missing=["hdparm"])
once("iostat", missing=["iostat"])
once("format", "/dev/x", missing=["mkfs"])
once("format", "/dev/x", missing=["sync"])
once("blkid", missing=["blkid"])

DRIVE = """
/dev/sda:
 multcount     = 16 (on)
 IO_support    =  1 (32-bit)
 readonly      =  0 (off)
 readahead     = 256 (on)
 geometry      = 121601/255/63, sectors = 1953525168, start = 0

 Model=MODEL 1000-08WN, FwRev=01.01A01, SerialNo=S-0001
 Config={ HardSect NotMFM HdSw>15uSec SpinMotCtl Fixed DTR>5Mbs FmtGapReq }
 RawCHS=16383/16/63, TrkSize=0, SectSize=0, ECCbytes=0
 BuffType=unknown, BuffSize=unknown, MaxMultSect=16, MultSect=16
 (maybe): CurCHS=16383/16/63, CurSects=16514064, LBA=yes, LBAsects=1953525168
 IORDY=on/off, tPIO={min:120,w/IORDY:120}, tDMA={min:120,rec:120}
 PIO modes:  pio0 pio3 pio4
 UDMA modes: udma0 udma1 *udma6
 AdvancedPM=no WriteCache=enabled
 Drive conforms to: Unspecified:  ATA/ATAPI-1,2,3

 * signifies the current active mode

 empty=
 nothing=,/
 queue_depth   = 32
 look-ahead    =  1 (on)
 write-caching =  1 (on) (saved)
 odd           = 5 (not closed
 acoustic      = not supported
 APM_level      = 254
 wdidle3      = 80 (8.0 secs)
 drive state is:  active/idle
 max sectors   = 1953525168/1953525168, HPA is disabled
"""
for disk in ("sda", "/dev/sda", "/devices/x"):
    once("hdparms", disk, says=[("", Said(DRIVE))])
once("hdparms", "sda", "aW", says=[("", Said(" look-ahead    =  1 (on)\n", 5, " HDIO_GET_MULTCOUNT failed"))])
once("hdparms", ["sda", "/dev/sdb"], ["a", "W"], says=[("sda", Said("\n/dev/sda:\n readahead = 256 (on)\n")), ("", Said("", 2, "no such device"))])


def sectors(visible, total, word):
    return Said(f"\n/dev/sda:\n max sectors   = {visible}/{total}, {word}\n")


for told in (sectors(1000, 1000, "HPA is disabled"), sectors(900, 1000, "HPA is enabled"), sectors(900, 1000, "HPA is disabled"),
             Said(" max sectors = 5/6(7?), HPA setting seems invalid\n"), Said("", 5, "refused"), Said(" max sectors = 5\n")):
    once("hpa", "sda", says=[("", told)])
    for size in (100, "100", 5000, -5):
        once("hpa", "sda", size, says=[("-N ", told)])
once("hpa", ["sda", "sdb"], says=[("", sectors(900, 1000, "HPA is enabled"))])
once("hpa", "sda", 100, says=[("-N ", sectors(900, 1000, "HPA is enabled")), ("", Said("", 22, "refused"))])

SMART = """smartctl 7.3 2022-02-28 r5338 [x86_64-linux] (local build)

=== START OF READ SMART DATA SECTION ===
SMART Attributes Data Structure revision number: 16
Vendor Specific SMART Attributes with Thresholds:
ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED RAW_VALUE
  1 Raw_Read_Error_Rate     0x002f   200   200   051    Pre-fail  Always       -       0
  3 Spin_Up_Time            0x0027   174   171   021    Pre-fail  Always       -       2283
  5 Reallocated_Sector_Ct   0x0033   200   200   140    Pre-fail  Always       -       0 1 2
  9 Power_On_Hours          0x0032   088   088   000    Old_age   Always       -       9012h+05m+12.345s
187 Reported_Uncorrect      0x0032   100   100   000    Old_age   Always   In_the_past 7
190 Airflow_Temperature_Cel 0x0022   064   045   045    Old_age   Always       -       36 (Min/Max 22/36)
194 Temperature_Celsius     0x0022   108   097   000    Old_age   Always       -       35 0  7
197 Current_Pending_Sector  0x0032   200   200

198 Offline_Uncorrectable   0x0030   200   200   000    Old_age   Offline      -       0
"""
for dev in ("/dev/sda", "sda"):
    once("smart_attributes", dev, says=[("", Said(SMART))])
once("smart_attributes", "sda", attributes=[5, 187, 188], says=[("", Said(SMART))])
once("smart_attributes", "sda", attributes=["5"], says=[("", Said(SMART))])
for values in (["raw_value", "when_failed"], "raw_value,type", [], "odd"):
    once("smart_attributes", "sda", [1, 190, 194], values, says=[("", Said(SMART))])
for said in (Said("", 2, "Smartctl open device: /dev/sda failed: No such device"), Said("nothing here\n"), Said("ID# A B\n"), Said("ID# A B\n 1 2 3 4 5\n")):
    once("smart_attributes", "sda", says=[("", said)])

IO = """Linux 4.9.0 (m1) \t11/23/26 \t_x86_64_\t(2 CPU)

avg-cpu:  %user   %nice %system %iowait  %steal   %idle
          42.98   15.07    9.89    0.28    0.02   31.76

Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await r_await w_await  svctm  %util
sda              11.33    29.50  267.36   41.64  4996.30  4424.78    18.69     0.53    1.78    1.12    0.12   0.05   2.00
dm-0              0.00     0.00    0.01    0.00     0.13     0.00    28.02     0.00    0.37    0.37    0.00   0.29   0.00

avg-cpu:  %user   %nice %system %iowait  %steal   %idle
          90.55    0.00    9.45    0.00    0.00    0.00

Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await r_await w_await  svctm  %util
sda               0.00     0.00    0.00   38.00     0.00   212.00    11.16     0.01    0.32    0.00    0.32   0.21   0.80
dm-0              0.00     0.00    0.00    0.00     0.00     0.00     0.00     0.00    0.00    0.00    0.00   0.00   0.00

"""
once("iostat", says=[("", Said(IO))])
once("iostat", 2, 3, says=[("", Said(IO[IO.index("Device:"):]))])
for disks in ("sda", "sda sdb", ["sda", "sdb"], []):
    once("iostat", 1, 2, disks=disks, says=[("", Said(IO[IO.index("Device:"):]))])
once("iostat", says=[("", Said("", 1, "refused"))])
once("iostat", says=[("", Said("Device: a b c\nsda 1.00 2.00 3.00\nsda 3.01 4.5\n"))])
once("iostat", says=[("", Said("Device: a b c\nsda 1.00 x 3.00\n"))])

DEVICES = '/dev/vda1: LABEL="root of all" UUID="1-2" BLOCK_SIZE="4096" TYPE="ext4"\n/dev/vdb: TYPE="swap"\n'
for given in ({}, {"device": "/dev/x"}, {"token": "TYPE=ext4"}, {"device": "/dev/x", "token": "TYPE=ext4"}, {"device": "", "token": "TYPE=ext4"}):
    once("blkid", says=[("", Said(DEVICES))], **given)
once("blkid", "/dev/x", says=[("", Said("", 2))])

SIZES = """Filesystem     1024-blocks     Used Available Capacity Mounted on
/dev/vda         264212084 21711972  73573916      23% /
map auto home            0        0         0     100% /home
"""
for fun in ("usage", "inodeusage", "percent"):
    once(fun, says=[("", Said(SIZES.replace("map auto home", "map_auto_home") if fun == "inodeusage" else SIZES))])
    once(fun, says=[("", Said("", 1))])
once("usage", "hT", says=[("", Said("", 1))])
once("usage", ["h", "T"], says=[("", Said("", 1))])
once("inodeusage", "; rm")
once("percent", "/home", says=[("", Said(SIZES))])
once("percent", "/none", says=[("", Said(SIZES))])
