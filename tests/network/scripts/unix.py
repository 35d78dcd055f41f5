# Calls on unix sockets, one line for what each came to: to be the same bare and in a session.
#   unix.py DIRECTORY
import socket,os,errno,sys,threading,struct
d=sys.argv[1]; os.chdir(d)
def t(name,f):
    try: r=f(); print(name,'ok',r)
    except OSError as e: print(name,errno.errorcode.get(e.errno,e.errno))
def S(t=socket.SOCK_STREAM): return socket.socket(socket.AF_UNIX,t)
def clean(*n):
    for x in n:
        try: os.unlink(x)
        except OSError: pass
clean('l2','s','q','d','dead','n','long')
srv=S(); t('bind',lambda: srv.bind(d+'/s')); t('listen',lambda: srv.listen(1))
t('name',lambda: os.path.basename(srv.getsockname()))
t('again',lambda: srv.bind(d+'/n'))
clean('n')
t('inuse',lambda: S().bind(d+'/s'))
t('relbind',lambda: S().bind('n'))
print(oct(os.stat('n').st_mode))
t('connect',lambda: (setattr(sys.modules[__name__],'c',S()), c.connect(d+'/s'))[1])
a,_=srv.accept(); c.send(b'hi'); print(a.recv(9)); 
t('isconn',lambda: c.connect(d+'/s'))
t('rel',lambda: S().connect('s'))
x=[]
def nb():
    for i in range(5):
        y=S(); y.setblocking(False); y.connect('s'); x.append(y)
t('full',nb)
t('notsock',lambda: S().connect('/etc/passwd'))
open('file','w').close()
t('file',lambda: S().connect('file'))
t('noent',lambda: S().connect('nothere'))
t('notdir',lambda: S().connect('file/x'))
t('dir',lambda: S().connect('.'))
l2=S(); l2.bind('l2'); l2.listen(); t('listening',lambda: l2.connect('l2'))
dd=S(); dd.bind('dead'); dd.close()
t('dead',lambda: S().connect('dead'))
t('unlistened',lambda: S().connect('n'))
t('proto',lambda: S(socket.SOCK_SEQPACKET).connect('s'))
q=S(socket.SOCK_SEQPACKET); q.bind('q'); q.listen()
qc=S(socket.SOCK_SEQPACKET); t('seq',lambda: qc.connect('q'))
t('seqsendto',lambda: qc.sendto(b'abc','/nothere'))
t('seqstream',lambda: S().connect('q'))
t('streamsendto',lambda: S().sendto(b'x',d+'/s'))
t('long',lambda: S().connect('x'*107))
t('abs',lambda: S().connect('\0nosuch'))
ab=S(); t('absbind',lambda: ab.bind('\0uxw-test')); ab.listen()
t('absconn',lambda: S().connect('\0uxw-test'))
t('autobind',lambda: len(S().bind('') or b''))
t('empty',lambda: S().connect(''))
import ctypes
libc=ctypes.CDLL(None,use_errno=True)
def raw(call,fd,b,n=None):
    r=getattr(libc,call)(fd,b,len(b) if n is None else n)
    return 'ok' if r==0 else errno.errorcode[ctypes.get_errno()]
U=struct.pack('H',1)
for n in (0,1,2,3,110,111,128,129,-1):
    print('raw connect',n,raw('connect',S().fileno(),(U+b'z'*130),n), 'bind', raw('bind',S().fileno(),(U+b'\0'*130),n))
print('unspec',raw('connect',S().fileno(),struct.pack('H',0)+b'\0'*14))
print('inet on unix',raw('connect',S().fileno(),struct.pack('H',2)+b'\0'*14))
print('badf',raw('connect',999,U+b's\0'))
print('notsock',raw('connect',os.open('/etc/passwd',os.O_RDONLY),U+b's\0'))
b=U+b'y'*108
clean('y'*108) 
u=S(); print('108',raw('bind',u.fileno(),b), end=' '); u.listen(); print(raw('connect',S().fileno(),b))
clean('y'*108)
os.mkdir('ro',0o555) if not os.path.exists('ro') else None
t('roconn',lambda: S().connect('ro/x')); t('robind',lambda: S().bind('ro/x'))
os.chmod('s',0o444); t('eacces',lambda: S().connect('s'))
os.symlink('q','ln') if not os.path.islink('ln') else None
t('link',lambda: S(socket.SOCK_SEQPACKET).connect('ln')); t('bindlink',lambda: S().bind('ln'))
clean('ln')
